"""Writes checkpoints in the course of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echelon.learn.callbacks.base import CHECKPOINTS, Callback, Metrics

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer


class Checkpoints(Callback):
    """A checkpoint every `TrainConfig.checkpoint_every` iterations, at the end, and where a callback asks for one."""

    order = CHECKPOINTS

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Write the checkpoint that is due."""
        is_regular = trainer.counters.iterations % trainer.config.checkpoint_every == 0
        if is_regular or trainer.ended or trainer.requests.checkpoint:
            trainer.save()
