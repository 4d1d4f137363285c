"""When battles in real time go on: how fast, or paused and one report at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from echelon.command.parse import number_of
from echelon.runtime.errors import require

FIELDS = ("pause", "speed", "step")
SPEEDS = (0.1, 16.0)
"""Slowest and fastest, in battle seconds a second."""
MOST_STEPS = 1000
"""In one line."""


class Pace:
    """The clock of battles that go on in real time, as their commander sets it.

    Args:
        period_s: battle seconds between two reports.
        now: seconds, of a clock that never goes back.
    """

    def __init__(self, period_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.period_s, self.now = period_s, now
        self.speed, self.is_paused = 1.0, False
        self._steps = 0
        self._due = -math.inf

    def as_json(self) -> dict[str, Any]:
        """A message of type `pace`: how the battles go on."""
        return {"type": "pace", "paused": self.is_paused, "speed": self.speed}

    def set(self, settings: Mapping[str, Any]) -> None:
        """Take what a line says: `pause`, a bool; `speed`; `step`, pause and play on for so many reports.

        Raises:
            ConfigError: one line that says what would be right; then nothing is taken.
        """
        pause, step = settings.get("pause", self.is_paused), settings.get("step", 0)
        require(isinstance(pause, bool), "pause", "true or false", pause)
        speed = number_of(settings.get("speed", self.speed), "speed", *SPEEDS)
        require(type(step) is int and 0 <= step <= MOST_STEPS, "step", f"0..{MOST_STEPS}", step)
        self.speed = speed
        if step:
            self.is_paused, self._steps = True, step
        elif pause != self.is_paused:
            self.is_paused, self._steps = pause, 0
            self.skip_to_now()

    def reported(self) -> None:
        """A report was sent: the next one is due a period after this one was, or at once where that has passed."""
        now_s, period_s = self.now(), self.period_s / self.speed
        self._due = now_s + period_s if math.isinf(self._due) else max(self._due + period_s, now_s)

    def played(self) -> None:
        """The battles went on."""
        self._steps -= self._steps > 0

    def skip_to_now(self) -> None:
        """Count no time from before now."""
        self._due = max(self._due, self.now())

    @property
    def left_s(self) -> float:
        """Seconds until the battles go on; infinite while they are paused."""
        if self.is_paused:
            return 0.0 if self._steps else math.inf
        return self._due - self.now()
