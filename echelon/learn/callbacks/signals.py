"""Signal handling: the first signal requests a graceful stop, the second ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_BASE = 128
"""Exit code of a process ended by a signal, minus the signal number."""


class Interrupted(Exception):
    """Raised by a signal during `Stop.run_interruptible`.

    Args:
        number: the signal number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stop:
    """Context manager that handles SIGINT and SIGTERM."""

    def __init__(self) -> None:
        self.signal = 0
        """Number of the received signal; 0 if there was none."""
        self._interruptible = False
        self._previous_handlers: list[object] = []

    def __enter__(self) -> Stop:
        self._previous_handlers = [signal.signal(number, self._handle) for number in SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(SIGNALS, self._previous_handlers, strict=True):
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            # No clean-up on the second signal; saved files are complete at any time.
            os._exit(EXIT_BASE + number)
        self.signal = number
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
