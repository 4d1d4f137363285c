"""Prioritised level replay: after every iteration, how often battles begin on each map follows its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from echelon.learn.callbacks.base import Callback, Metrics
from echelon.runtime import noise
from echelon.runtime.noise import Stream

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer


class LevelReplay(Callback):
    """Lets battles draw maps by `echelon.learn.levels.LevelScores`. Runs with `--curriculum.levels plr` have one.

    It reads nothing from the device. Each process of a run scores its own battles, and its checkpoint has the scores.
    """

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Take the battles of this iteration into account."""
        if trainer.collector.levels is not None:
            trainer.collector.levels.update(trainer.env.game.maps.seed)
            self._weigh(trainer)

    def on_stage(self, trainer: Trainer) -> None:
        """Begin anew: what was won against another commander says little of this one."""
        if trainer.collector.levels is not None:
            trainer.collector.levels.clear()
            self._weigh(trainer)

    @staticmethod
    def _weigh(trainer: Trainer) -> None:
        levels, config, pool = trainer.collector.levels, trainer.config, trainer.env.map_pool
        assert levels is not None
        seed = torch.tensor([config.seed + trainer.ranks.rank], device="cpu")
        offset = float(noise.uniform(seed, trainer.counters.iterations, Stream.LEVEL, 1))
        shares = config.curriculum.levels_uniform, config.curriculum.levels_stale
        pool.assign_slots(levels.weights(pool.active, *shares), offset)
