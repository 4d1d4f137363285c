"""Signal handling: the first signal requests a graceful stop, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from echelon.learn.callbacks.base import Callback, Interrupted
from echelon.runtime.errors import require

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_BASE = 128
"""Exit code of a process ended by a signal, minus the signal number."""


class Stop(Callback):
    """Handles SIGINT and SIGTERM: a run that has this callback ends after the iteration, saved, with `Interrupted`.

    As a context manager it handles them from its beginning to its end; else from the construction of the trainer to the
    end of `Trainer.train`.
    """

    def __init__(self) -> None:
        self._is_entered_by_run = False
        self.signal = 0
        """Number of the received signal; 0 if there was none."""
        self._interruptible = False
        self._is_first = True
        self._previous_handlers: list[object] = []

    def setup(self, trainer: Trainer) -> None:
        """Tell the run of signals."""
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
            self.__exit__(None, None, None)

    def __enter__(self) -> Stop:
        is_main = threading.current_thread() is threading.main_thread()
        limit = "entered in the main thread, where alone Python handles signals; elsewhere train without it"
        require(is_main, "Stop", limit, threading.current_thread().name)
        self._previous_handlers = [signal.signal(number, self._handle) for number in SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(SIGNALS, self._previous_handlers, strict=True):
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous_handlers = []

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            # No clean-up on the second signal; saved files are complete at any time.
            os._exit(EXIT_BASE + number)
        self.signal = number
        if self._is_first and number == signal.SIGINT:
            # For who pressed Ctrl-C. Not through a stream, which may be in the middle of a write.
            os.write(2, b"SIGINT: stopping and saving; once more ends at once\n")
        if self._interruptible:
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
