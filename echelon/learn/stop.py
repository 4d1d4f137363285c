"""How a run is asked to stop: a first signal lets it finish what it does, a second one ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_BASE = 128
"""A program that a signal ended exits with this and the signal's number."""


class Interrupted(Exception):
    """A signal came while nothing would be lost by stopping."""


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
            raise Interrupted

    @contextlib.contextmanager
    def cuts_short(self) -> Iterator[None]:
        """Leave the block at the first signal: for work that may be done again."""
        with contextlib.suppress(Interrupted):
            self.at_once = True
            try:
                if self.signal:
                    raise Interrupted
                yield
            finally:
                self.at_once = False

    @property
    def exit_code(self) -> int:
        """What the program ends with."""
        return EXIT_BASE + self.signal
