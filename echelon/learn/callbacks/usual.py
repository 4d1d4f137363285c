"""The callbacks that every run has."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.learn.callbacks.base import Callback
from echelon.learn.callbacks.level_replay import LevelReplay
from echelon.learn.callbacks.loggers import Checkpoints, MetricsLogger
from echelon.learn.callbacks.threads import ThreadChoice
from echelon.learn.config import TrainConfig


def usual_callbacks(config: TrainConfig, own: Sequence[Callback]) -> list[Callback]:
    """`MetricsLogger`, `Checkpoints` and `ThreadChoice`, with `--curriculum.levels plr` also `LevelReplay`: those of
    which there is no instance among one's `own`."""
    usual: list[Callback] = [MetricsLogger(), Checkpoints(), ThreadChoice()]
    usual += [LevelReplay()] if config.curriculum.levels == "plr" else []
    return [each for each in usual if not any(isinstance(one, type(each)) for one in own)]
