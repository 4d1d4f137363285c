"""How a run is asked to stop: a first signal lets it finish what it does, a second one ends it at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_BASE = 128
"""A program that a signal ended exits with this plus the signal's number."""


class Interrupted(Exception):
    """A signal came, and nothing is lost by stopping here.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stop:
    """Listens for SIGINT and SIGTERM while it is entered."""

    def __init__(self) -> None:
        self.signal = 0
        """The number of the signal that came; 0 if none has."""
        self.at_once = False
        self.before: list[object] = []

    def __enter__(self) -> Stop:
        self.before = [signal.signal(number, self._hear) for number in SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(SIGNALS, self.before, strict=True):
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            # No clean-up: whoever asks twice wants the process gone, and what was saved is whole.
            os._exit(EXIT_BASE + number)
        self.signal = number
        if self.at_once:
            raise Interrupted(number)

    def unless_asked(self, work: Callable[[], None]) -> None:
        """Do what may be done again later: a signal ends it, or keeps it from beginning."""
        self.at_once = True
        try:
            if not self.signal:
                work()
        except Interrupted:
            pass
        finally:
            self.at_once = False
