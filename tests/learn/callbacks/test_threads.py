"""Choice of the number of threads, and the log of busy cores, with a stub clock."""

import dataclasses
import itertools
import logging

import pytest
import torch
from tiny_runs import tiny_run

from echelon.learn.callbacks import threads
from echelon.learn.callbacks.threads import LATEST, SOONEST, TRIAL, ThreadChoice
from echelon.learn.trainer import Trainer


class StubClock:
    """Every reading advances the clock by a second, with a given number of cores in use."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.cores = 1.0

    def perf_counter(self) -> float:
        self.wall += 1.0
        return self.wall

    def process_time(self) -> float:
        self.cpu += self.cores
        return self.cpu


class Speed(ThreadChoice):
    """Sets each iteration's speed by its number of threads."""

    def __init__(self, rates: dict[int, float]) -> None:
        super().__init__()
        self.by_number, self.used, self.blocks = rates, [], []

    def on_iteration_end(self, trainer, metrics):
        self.used.append(trainer.ppo.threads)
        self.blocks.append(len(trainer.env.engine.blocks.spans))
        metrics["agent_steps_per_s"] = self.by_number[trainer.ppo.threads]
        super().on_iteration_end(trainer, metrics)


@pytest.fixture
def clock(monkeypatch):
    stub = StubClock()
    monkeypatch.setattr(threads, "time", stub)
    return stub


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def quick_trials(monkeypatch):
    monkeypatch.setattr(threads, "SOONEST", 3)
    monkeypatch.setattr(threads, "LATEST", 6)


def test_fastest_thread_count_is_chosen_and_updated(tmp_path, monkeypatch, caplog, clock, two_threads):
    quick_trials(monkeypatch)
    choice = Speed({1: 150.0, 2: 100.0})
    choice.pause = 3
    trainer = Trainer(tiny_run(opponent="self", total_agent_steps=10**6), tmp_path, callbacks=[choice])
    with caplog.at_level(logging.INFO):
        trainer.train(6)
    assert choice.used == [2, 2, 2, 1, 1, 1] and choice.blocks == [2, 2, 2, 1, 1, 1]
    assert "1 threads: 150 agent-steps/s, with 2 100" in caplog.text
    choice.by_number = {1: 150.0, 2: 170.0}  # other programs have ended
    trainer.train(6)
    assert choice.used[6:] == [1, 1, 2, 2, 2, 2]
    assert choice.number == 2


def test_pause_doubles_after_slower_trial(tmp_path, clock, two_threads):
    choice = Speed({1: 100.0, 2: 104.0})
    trainer = Trainer(tiny_run(), tmp_path, callbacks=[choice])
    for _ in range(3 * LATEST):
        choice.on_iteration_start(trainer)
        choice.on_iteration_end(trainer, {})
    tried = [at for at, number in enumerate(choice.used) if number == 1]
    starts = [at for at in tried if at - 1 not in tried]
    assert len(tried) == TRIAL * len(starts) and choice.number == 2
    pauses = [later - sooner - TRIAL for sooner, later in itertools.pairwise(starts)]
    assert starts[0] == SOONEST and pauses == [32, 64, 128, LATEST, LATEST]


def test_parts_without_thread_speedup_are_logged(tmp_path, caplog, clock, two_threads):
    choice = Speed({1: 100.0, 2: 103.0})
    seconds = {1: (4.0, 2.0, 3.0), 2: (2.0, 2.0, 3.6)}
    trainer = Trainer(tiny_run(), tmp_path, callbacks=[choice])
    with caplog.at_level(logging.INFO):
        for _ in range(4 * LATEST):
            choice.on_iteration_start(trainer)
            choice.on_iteration_end(trainer, dict(zip(threads.PARTS, seconds[trainer.ppo.threads], strict=True)))
    (line,) = [record.message for record in caplog.records if "threads" in record.message]
    parts = "acting (x1.00), learning (x0.83)"
    assert line.endswith(f" 2 threads are no faster than 1: 103 and 100 agent-steps/s; no gain in {parts}")
    faster = Speed({1: 100.0, 2: 160.0})
    trainer = Trainer(tiny_run(), tmp_path / "faster", callbacks=[faster])
    caplog.clear()
    for _ in range(2 * LATEST):
        faster.on_iteration_start(trainer)
        faster.on_iteration_end(trainer, dict(zip(threads.PARTS, seconds[trainer.ppo.threads], strict=True)))
    assert not [record for record in caplog.records if "no gain" in record.message]


def test_configured_thread_count_is_fixed(tmp_path, clock, two_threads):
    choice = Speed({1: 1.0, 2: 9.0})
    trainer = Trainer(dataclasses.replace(tiny_run(), threads=1), tmp_path, callbacks=[choice])
    for _ in range(2 * SOONEST):
        choice.on_iteration_start(trainer)
        choice.on_iteration_end(trainer, {})
    assert set(choice.used) == {1}


def test_busy_cores_are_logged_once_and_trials_restart(tmp_path, caplog, clock):
    choice = Speed({1: 100.0})
    trainer = Trainer(dataclasses.replace(tiny_run(), threads=1), tmp_path, callbacks=[choice])
    choice.pause = LATEST
    with caplog.at_level(logging.INFO):
        for cores in (1.0, 1.0, 0.4, 0.9, 0.4, 0.3, 0.4, 0.4, 1.0, 1.0):
            choice.on_iteration_start(trainer)
            clock.cores = cores
            choice.on_iteration_end(trainer, {})
    lines = [record.message for record in caplog.records if "core" in record.message]
    assert ["gets 0.40 of a core" in lines[0], "free again" in lines[1]] == [True, True] and len(lines) == 2
    assert choice.pause == SOONEST
