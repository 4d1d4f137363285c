"""Signal handling: the first signal requests a graceful stop, the second ends the process at once."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from torch.distributed import is_torchelastic_launched

from echelon.learn.callbacks.base import Callback, Interrupted, Metrics, TrainingRun
from echelon.runtime.errors import require

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""Signals that stop the run; a second one ends the process at once. Under torchrun a second signal is ignored, because
torchrun forwards signals that all processes already got, and kills processes that do not end in time."""
REPEATED_SIGNALS = (signal.SIGHUP, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2)
"""Signals of a closed terminal, a CPU time limit and batch systems. They may arrive many times: a shell repeats the
terminal's SIGHUP, and the kernel repeats SIGXCPU every second."""
EXIT_BASE = 128
"""Exit code of a process that a signal ended, minus the signal number."""


class SignalHandler(Callback):
    """Handles `STOP_SIGNALS` and `REPEATED_SIGNALS`: after the current iteration, save the run and raise `Interrupted`.

    SIGINT and SIGTERM are always handled. The other signals are handled only if they would end the process: not SIGHUP
    under `nohup`, and no signal that already has a handler.

    Used as a context manager, the class handles signals inside the block. Without a `with` block, it handles signals
    from the construction of the trainer to the end of `Trainer.train`.
    """

    def __init__(self) -> None:
        self._is_entered_by_run = False
        self.signal = 0
        """Number of the received signal; 0 for none."""
        self._interruptible = False
        self._is_first = True
        self._stop_requested = False
        self._previous_handlers: dict[signal.Signals, object] = {}

    def setup(self, trainer: TrainingRun) -> None:
        if not self._previous_handlers:
            self.__enter__()
            self._is_entered_by_run = True
        self._is_first = trainer.ranks.is_first
        trainer.pending_signal = lambda: self.signal
        trainer.run_interruptible = self.run_interruptible

    def close(self) -> None:
        """Restore the previous signal handlers, if `setup` replaced them."""
        if self._is_entered_by_run:
            self._is_entered_by_run = False
            self.__exit__()

    def __enter__(self) -> SignalHandler:
        is_main = threading.current_thread() is threading.main_thread()
        limit = "entered in the main thread, the only one in which Python handles signals; elsewhere train without it"
        require(is_main, "SignalHandler", limit, threading.current_thread().name)
        for signum in (*STOP_SIGNALS, *REPEATED_SIGNALS):
            if signum in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(signum) is signal.SIG_DFL:
                self._previous_handlers[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for signum, handler in self._previous_handlers.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
        self._previous_handlers = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number in STOP_SIGNALS and self._stop_requested and not is_torchelastic_launched():
            # Exit without clean-up on the second signal: files are written atomically, so they are always complete.
            os._exit(EXIT_BASE + number)
        self._stop_requested |= number in STOP_SIGNALS
        self.signal = self.signal or number
        if self._is_first and number in (signal.SIGINT, signal.SIGQUIT):
            # Confirm Ctrl-C or Ctrl-\ to the user. Write to the descriptor, because the stream may be busy.
            more = "" if is_torchelastic_launched() else "; repeat to end at once"
            with contextlib.suppress(OSError):
                os.write(2, f"{signal.Signals(number).name}: stopping and saving{more}\n".encode())
        if self._interruptible:
            self._interruptible = False
            raise Interrupted(number)

    def run_interruptible(self, work: Callable[[], None]) -> None:
        """Run `work`, which may be repeated later; a signal aborts the work, and after an earlier signal it is
        skipped.
        """
        self._interruptible = True
        try:
            if not self.signal:
                work()
        except Interrupted:
            pass
        finally:
            self._interruptible = False


class TimedStop(SignalHandler):
    """A signal handler that also ends the run when `minutes` have passed since construction, after the current
    iteration. If `minutes` is 0, there is no limit.
    """

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self.deadline_s = time.monotonic() + 60 * minutes if minutes > 0 else math.inf

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        if time.monotonic() >= self.deadline_s:
            trainer.stop()
