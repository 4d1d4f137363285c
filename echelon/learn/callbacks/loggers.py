"""Callbacks that write metrics, checkpoints and a profile."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelon.learn.callbacks.base import CHECKPOINTS, LOGGERS, Callback, Metrics, TrainingRun
from echelon.learn.callbacks.level_replay import LevelReplay
from echelon.learn.callbacks.threads import ThreadChoice
from echelon.learn.config import TrainConfig
from echelon.learn.metrics import MetricsLog
from echelon.runtime.files import check_writable
from echelon.runtime.profiling import profiled


class MetricsLogger(Callback):
    """Writes `metrics.csv`, appending in a resumed run, and sends metrics and evaluations to `TrainConfig.logger`."""

    order = LOGGERS

    def __init__(self) -> None:
        self.log: MetricsLog | None = None

    def setup(self, trainer: TrainingRun) -> None:
        if trainer.ranks.is_first:
            done = trainer.counters
            self.log = MetricsLog(trainer.folder, done.iterations, done.agent_steps, trainer.config.logger)

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        if self.log is not None:
            self.log.write(metrics)

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        if self.log is not None:
            self.log.write_evaluation([score.row() for score in scores], trainer.counters.agent_steps)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()


class Checkpoints(Callback):
    """Writes a checkpoint every `TrainConfig.checkpoint_every` iterations, at the end, and on a callback's request."""

    order = CHECKPOINTS

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        is_regular = trainer.counters.iterations % trainer.config.checkpoint_every == 0
        if is_regular or trainer.ended or trainer.requests.checkpoint:
            trainer.save()


PROFILED = 3
"""Number of the profiled iteration of this process, from 1; the iterations before it include compilation."""


class Profiler(Callback):
    """Writes a trace of iteration `PROFILED` to a file and prints the most expensive parts, on the first process.

    Put this callback first in the list: the trace then excludes the work of later callbacks after the iteration.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running = contextlib.ExitStack()
        self.begun = 0
        """Number of iterations that this process has started."""

    def setup(self, trainer: TrainingRun) -> None:
        if trainer.ranks.is_first:
            check_writable(self.path)

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        self.begun += 1
        if trainer.ranks.is_first and self.begun == PROFILED:
            self.running.enter_context(profiled(self.path))

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        self.running.close()

    def on_run_end(self, trainer: TrainingRun) -> None:
        if self.begun < PROFILED:
            trainer.log_plain(f"no profile in {self.path}: the run ended before iteration {PROFILED}")

    def close(self) -> None:
        self.running.close()


def usual_callbacks(config: TrainConfig, callbacks: Sequence[Callback]) -> list[Callback]:
    """Return `MetricsLogger`, `Checkpoints`, `ThreadChoice` and, with `--curriculum.map-sampling plr`, `LevelReplay`,
    but no class of which `callbacks` already contains an instance."""
    defaults: list[Callback] = [MetricsLogger(), Checkpoints(), ThreadChoice()]
    defaults += [LevelReplay()] if config.curriculum.map_sampling == "plr" else []
    return [default for default in defaults if not any(isinstance(callback, type(default)) for callback in callbacks)]
