"""Numbers that change over a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from echelon.runtime.errors import require, require_finite


@dataclass(frozen=True)
class Schedule:
    """A number that goes from `first` to `last` while a run goes from its beginning to its end."""

    first: float = 1.0
    last: float = 1.0
    shape: Literal["constant", "linear", "cosine"] = "linear"
    """constant stays at `first`; cosine leaves `first` and reaches `last` slowly (Loshchilov & Hutter 2017)."""

    def __post_init__(self) -> None:
        require_finite(self)
        shapes = ("constant", "linear", "cosine")
        require(self.shape in shapes, "Schedule.shape", f"one of {shapes}", self.shape)

    def at(self, progress: float) -> float:
        """The number at `progress`, 0..1 of the run; beyond its end it stays."""
        done = min(max(progress, 0.0), 1.0)
        share = {"constant": 0.0, "linear": done, "cosine": (1 - math.cos(math.pi * done)) / 2}[self.shape]
        return self.first + (self.last - self.first) * share

    @property
    def lowest(self) -> float:
        """The least it ever is."""
        return self.first if self.shape == "constant" else min(self.first, self.last)
