"""Writes the metrics of every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from echelon.learn.callbacks.base import LOGGERS, Callback, Metrics
from echelon.learn.metrics import MetricsLog

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer


class MetricsLogger(Callback):
    """Writes `metrics.csv`, which a resumed run continues, and sends it and evaluations to `TrainConfig.logger`."""

    order = LOGGERS

    def __init__(self) -> None:
        self.log: MetricsLog | None = None

    def setup(self, trainer: Trainer) -> None:
        """Open the table on the first process."""
        if trainer.ranks.is_first:
            done = trainer.counters
            self.log = MetricsLog(trainer.folder, done.iterations, done.agent_steps, trainer.config.logger)

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Append a row."""
        if self.log is not None:
            self.log.write(metrics)

    def on_evaluation(self, trainer: Trainer, scores: Sequence[Any]) -> None:
        """Send the scores to the logger."""
        if self.log is not None:
            self.log.write_evaluation([score.row() for score in scores], trainer.counters.agent_steps)

    def close(self) -> None:
        """Flush and close the logger."""
        if self.log is not None:
            self.log.close()
