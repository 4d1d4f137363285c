"""Writes the metrics of every iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echelon.learn.callbacks.base import LOGGERS, Callback, Metrics
from echelon.learn.metrics import MetricsLog

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer


class MetricsLogger(Callback):
    """Writes `metrics.csv`, and to the logger `TrainConfig.logger`; a resumed run continues its file."""

    order = LOGGERS

    def __init__(self) -> None:
        self.log: MetricsLog | None = None

    def setup(self, trainer: Trainer) -> None:
        """Open the table on the first process."""
        if trainer.ranks.is_first:
            self.log = MetricsLog(trainer.folder, trainer.counters.iterations, trainer.config.logger)

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Append a row."""
        if self.log is not None:
            self.log.write(metrics)

    def close(self) -> None:
        """Flush and close the logger."""
        if self.log is not None:
            self.log.close()
