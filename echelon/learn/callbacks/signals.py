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

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""Signals of which the second one ends the process at once, but for a process of torchrun: that passes on what a batch
system or a terminal sends to all processes already, and itself kills those that do not end in time."""
WARNING = (signal.SIGHUP, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2)
"""Signals of a closed terminal, of a limit of processor time and of batch systems, which may come many times over: the
shell passes a hang-up on that the terminal sent already, and the system repeats SIGXCPU every second."""
EXIT_BASE = 128
"""Exit code of a process ended by a signal, minus the signal number."""


class Stop(Callback):
    """Handles `ASKING` and `WARNING`: a run that has this callback ends after the iteration, saved, with `Interrupted`.

    SIGINT and SIGTERM are always handled, the others where they would end the process: not SIGHUP under `nohup`, nor
    what has a handler already.

    As a context manager it handles them from its beginning to its end; else from the construction of the trainer to the
    end of `Trainer.train`.
    """

    def __init__(self) -> None:
        self._is_entered_by_run = False
        self.signal = 0
        """Number of the received signal; 0 if there was none."""
        self._interruptible = False
        self._is_first = True
        self._is_asked = False
        self._previous_handlers: dict[signal.Signals, object] = {}

    def setup(self, trainer: TrainingRun) -> None:
        if not self._previous_handlers:
            self.__enter__()
            self._is_entered_by_run = True
        self._is_first = trainer.ranks.is_first
        trainer.pending_signal = lambda: self.signal
        trainer.run_interruptible = self.run_interruptible

    def close(self) -> None:
        """Restore the handlers of before, if `setup` has replaced them."""
        if self._is_entered_by_run:
            self._is_entered_by_run = False
            self.__exit__()

    def __enter__(self) -> Stop:
        is_main = threading.current_thread() is threading.main_thread()
        limit = "entered in the main thread, where alone Python handles signals; elsewhere train without it"
        require(is_main, "Stop", limit, threading.current_thread().name)
        for signum in (*ASKING, *WARNING):
            if signum in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(signum) is signal.SIG_DFL:
                self._previous_handlers[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for signum, handler in self._previous_handlers.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
        self._previous_handlers = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number in ASKING and self._is_asked and not is_torchelastic_launched():
            # No clean-up on the second signal; saved files are complete at any time.
            os._exit(EXIT_BASE + number)
        self._is_asked |= number in ASKING
        self.signal = self.signal or number
        if self._is_first and number in (signal.SIGINT, signal.SIGQUIT):
            # For who pressed Ctrl-C or Ctrl-\. Not through a stream, which may be in the middle of a write.
            more = "" if is_torchelastic_launched() else "; once more ends at once"
            with contextlib.suppress(OSError):
                os.write(2, f"{signal.Signals(number).name}: stopping and saving{more}\n".encode())
        if self._interruptible:
            self._interruptible = False
            raise Interrupted(number)

    def run_interruptible(self, work: Callable[[], None]) -> None:
        """Run work that may be repeated later: a signal aborts it, and an earlier one skips it."""
        self._interruptible = True
        try:
            if not self.signal:
                work()
        except Interrupted:
            pass
        finally:
            self._interruptible = False


class TimedStop(Stop):
    """Also ends a run after the first iteration that ends this many minutes or more after construction; 0: never."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self.deadline_s = time.monotonic() + 60 * minutes if minutes > 0 else math.inf

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        if time.monotonic() >= self.deadline_s:
            trainer.stop()
