"""Signals that end a run: which ones are handled, which count twice, and that the run is saved."""

import os
import signal

import pytest
from tiers import usually
from tiny_runs import tiny_run

from echelon.learn.callbacks import signals
from echelon.learn.callbacks.base import Callback, Interrupted
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.trainer import Trainer


class Sends(Callback):
    """Sends signals to its own process after the first iteration."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def on_iteration_end(self, trainer, metrics):
        for number in self.numbers:
            os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def usual_signals():
    """Restore default signal handlers, also if the tests run under `nohup` or in a shell's background."""
    before = {number: signal.getsignal(number) for number in (*signals.STOP_SIGNALS, *signals.REPEATED_SIGNALS)}
    for number in before:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def exits(monkeypatch):
    """Record exit codes instead of ending the process."""
    codes: list[int] = []
    monkeypatch.setattr(signals.os, "_exit", codes.append)
    return codes


@pytest.fixture(autouse=True)
def usual_handlers():
    """Reset signals that `nohup` or a shell's background ignores."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGQUIT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


SIGNALS = usually([*signals.STOP_SIGNALS, *signals.REPEATED_SIGNALS], signal.SIGINT, signal.SIGXCPU)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_signal_saves_and_ends_the_run(tmp_path, number):
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as ended:
        Trainer(tiny_run(checkpoint_every=10), tmp_path, callbacks=[SignalHandler(), Sends(number)]).train()
    assert ended.value.number == number and newest_checkpoint(tmp_path / "checkpoints").name == "iteration_000001"
    assert signal.getsignal(number) is before


def test_second_signal_under_torchrun_is_ignored(exits, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "echelon")
    with SignalHandler() as stop:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
    assert exits == [] and stop.signal == signal.SIGTERM
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with SignalHandler():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert exits == [128 + signal.SIGTERM]


def test_repeated_hangup_signals_do_not_end_process(exits):
    with SignalHandler() as stop:
        # The terminal and the shell; the CPU time limit every second; the session manager.
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGXCPU, signal.SIGXCPU, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert stop.signal == signal.SIGHUP and exits == []
        os.kill(os.getpid(), signal.SIGINT)
        assert exits == [128 + signal.SIGINT]


def test_ignored_and_custom_handlers_are_kept():
    def mine(number, frame):
        """A custom handler."""

    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGUSR1)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGUSR1, mine)
    try:
        with SignalHandler() as stop:
            for number in (signal.SIGHUP, signal.SIGUSR1):
                os.kill(os.getpid(), number)
            assert stop.signal == 0 and signal.getsignal(signal.SIGUSR1) is mine
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_closed_terminal_does_not_break_signal_handler(monkeypatch):
    def gone(number, data):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(signals.os, "write", gone)
    with SignalHandler() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT


class Exits(Callback):
    def on_iteration_end(self, trainer, metrics):
        raise SystemExit(1)


def test_system_exit_in_callback_saves_the_run(tmp_path):
    """Rich does this if its output is a closed pipe."""
    with pytest.raises(SystemExit):
        Trainer(tiny_run(checkpoint_every=10), tmp_path, callbacks=[Exits()]).train()
    assert newest_checkpoint(tmp_path / "checkpoints").name == "iteration_000001"
