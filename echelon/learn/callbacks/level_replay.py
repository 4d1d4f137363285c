"""Draws maps by their learnability (prioritised level replay)."""

from __future__ import annotations

import torch

from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.runtime import noise
from echelon.runtime.noise import Stream


class LevelReplay(Callback):
    """Draws the maps of new battles by `echelon.learn.levels.LevelScores`; used with `--curriculum.map-sampling plr`.

    The callback never copies data from the device. Each process scores its own battles, and checkpoints store the
    scores.
    """

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Update the scores with the battles of this iteration."""
        if trainer.levels is not None:
            trainer.levels.update(trainer.env.sim_model.maps.seed)
            self._weigh(trainer)

    def on_stage(self, trainer: TrainingRun) -> None:
        """Clear the scores: results against the previous commander say little about the new one."""
        if trainer.levels is not None:
            trainer.levels.clear()
            self._weigh(trainer)

    @staticmethod
    def _weigh(trainer: TrainingRun) -> None:
        levels, config, pool = trainer.levels, trainer.config, trainer.env.map_pool
        assert levels is not None
        seed = torch.tensor([config.seed + trainer.ranks.rank], device="cpu")
        offset = float(noise.uniform(seed, trainer.counters.iterations, Stream.LEVEL, 1))
        shares = config.curriculum.map_sampling_uniform, config.curriculum.map_sampling_stale
        pool.assign_slots(levels.weights(pool.active, *shares), offset)
