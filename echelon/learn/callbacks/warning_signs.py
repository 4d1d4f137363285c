"""Logs what looks as if a run did not learn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from echelon.learn.callbacks.base import Callback, Metrics
from echelon.learn.metrics import read_metrics
from echelon.learn.warning_signs import RECENT, warning_signs

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer


class WarningSigns(Callback):
    """Logs each of `echelon.learn.warning_signs` once, when it is first seen."""

    def __init__(self) -> None:
        self.first: Metrics = {}
        """Metrics of the first iteration of the run."""
        self.recent: deque[Metrics] = deque(maxlen=RECENT)
        self.logged: set[str] = set()

    def on_run_start(self, trainer: Trainer) -> None:
        """Read what a resumed run measured before."""
        rows = read_metrics(trainer.folder / "metrics.csv") if trainer.counters.iterations > 0 else []
        self.first, self.recent = (dict(rows[0]) if rows else {}), deque(map(dict, rows[-RECENT:]), RECENT)

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Log new signs."""
        row = dict(metrics)
        self.first = self.first or row
        self.recent.append(row)
        for name, text in warning_signs([self.first, *self.recent], trainer.config, trainer.progress).items():
            if name not in self.logged:
                self.logged.add(name)
                trainer.log(f"warning: {text}")
