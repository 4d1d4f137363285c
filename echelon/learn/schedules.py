"""Schedules of hyperparameters over a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from echelon.runtime.limits import ANY, Settings


@dataclass(frozen=True)
class Schedule(Settings):
    """A value that changes from `first` to `last` over a run."""

    first: Annotated[float, ANY] = 1.0
    last: Annotated[float, ANY] = 1.0
    shape: Literal["constant", "linear", "cosine"] = "linear"
    """constant: stays at `first`; cosine: cosine annealing from `first` to `last` (Loshchilov & Hutter 2017)."""

    def at(self, progress: float) -> float:
        """Return the value at `progress`, which is clamped to 0..1."""
        done = min(max(progress, 0.0), 1.0)
        share = {"constant": 0.0, "linear": done, "cosine": (1 - math.cos(math.pi * done)) / 2}[self.shape]
        return self.first + (self.last - self.first) * share

    @property
    def lowest(self) -> float:
        """Minimum over the run."""
        return self.first if self.shape == "constant" else min(self.first, self.last)
