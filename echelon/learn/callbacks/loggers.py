"""Callbacks that write metrics, checkpoints and a profile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from echelon.learn.callbacks.base import CHECKPOINTS, LOGGERS, Callback, Metrics, TrainingRun
from echelon.learn.callbacks.level_replay import LevelReplay
from echelon.learn.callbacks.threads import ThreadChoice
from echelon.learn.config import TrainConfig
from echelon.learn.metrics import COLUMNS, CsvTable, for_loggers
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, read_file, write_whole
from echelon.runtime.profiling import profiled

if TYPE_CHECKING:
    from torchrl.record.loggers import Logger


class MetricsLogger(Callback):
    """Writes `metrics.csv`, appending in a resumed run."""

    order = LOGGERS

    def __init__(self) -> None:
        self.table: CsvTable | None = None
        """None on every process but the first."""

    def setup(self, trainer: TrainingRun) -> None:
        if trainer.ranks.is_first:
            self.table = CsvTable(trainer.folder / "metrics.csv", COLUMNS, trainer.counters.iterations)

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        for name, value in metrics.items():
            is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
            require(is_number, f"metrics[{name!r}]", "a number or None (of a tensor: value.item())", value)
        if self.table is not None:
            self.table.write(metrics)


class LoggerCallback(Callback):
    """Sends metrics, evaluations and pictures of battles to a logger of TorchRL.

    The logger receives the columns of `metrics.csv`, those of `COMMON_NAMES` a second time under their common name, and
    the numbers of `evaluations.csv` as `evaluation/RIVAL/COLUMN`. The step is the number of agent steps.

    Args:
        logger: a `torchrl.record.loggers.Logger`, which the caller closes; or a function of the run (`TrainingRun`)
            that returns one. The callback calls the function on the first process only, and closes its logger when the
            run ends.
        name: unique name among the callbacks of a run.

    Raises:
        ConfigError: `logger` is neither.
    """

    order = LOGGERS
    name = "logger"

    def __init__(self, logger: Logger | Callable[[TrainingRun], Logger], name: str = "logger") -> None:
        from torchrl.record.loggers import Logger

        is_logger = isinstance(logger, Logger)
        require(is_logger or callable(logger), "logger", "a Logger of torchrl.record.loggers", logger)
        self.name = name
        self.make = None if is_logger else logger
        self.logger: Any = logger if is_logger else None
        """None until the first value, and on every process but the first."""

    def _open(self, trainer: TrainingRun) -> Any:
        if self.logger is None and self.make is not None:
            self.logger = self.make(trainer)
        return self.logger

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        if trainer.ranks.is_first:
            self._open(trainer).log_metrics(for_loggers(metrics), step=trainer.counters.agent_steps)

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        rows = [score.row() for score in scores]
        numbers = {
            f"evaluation/{row['rival']}/{name}": value
            for row in rows
            for name, value in row.items()
            if isinstance(value, int | float)
        }
        self._open(trainer).log_metrics(numbers, step=trainer.counters.agent_steps)

    def log_image(self, trainer: TrainingRun, name: str, picture: np.ndarray) -> None:
        """Send an image `[H, W, 3]` uint8 to TensorBoard or Weights & Biases. TorchRL's other loggers take no image."""
        from torchrl.record.loggers import WandbLogger

        logger, steps = self._open(trainer), trainer.counters.agent_steps
        if hasattr(logger.experiment, "add_image"):
            logger.experiment.add_image(name, picture, steps, dataformats="HWC")
        elif isinstance(logger, WandbLogger):
            import wandb

            # The step of an entry is the entry `step` of the same group, as in `WandbLogger`.
            logger.experiment.log({name: wandb.Image(picture), f"{name.rpartition('/')[0]}/step": steps})

    def close(self) -> None:
        if self.logger is None:
            return
        if self.make is None:
            self.logger.flush()
        else:
            self.logger.close()
            self.logger = None


def run_logger(trainer: TrainingRun) -> Logger:
    """Return the logger of `TrainConfig.logger` in the run folder."""
    from torchrl.record.loggers import get_logger

    config, folder = trainer.config, trainer.folder
    if config.logger == "wandb":
        id_file = folder / "wandb-id.txt"
        if not id_file.exists():
            write_whole(id_file, f"{uuid4().hex[:8]}\n".encode())
        of_run = {"project": config.wandb.project, "group": config.wandb.group or None, "tags": config.wandb.tags}
        # TorchRL passes resume="allow": a resumed run of the same id continues its run at Weights & Biases.
        of_run["id"] = read_file(id_file, 100).decode("ascii", "replace").strip()
        return get_logger("wandb", str(folder), config.wandb.name or folder.resolve().name, wandb_kwargs=of_run)
    logger = get_logger(config.logger, str(folder), config.logger)
    # With `purge_step`, TensorBoard hides the points that a killed process wrote after its last checkpoint. The step is
    # written into the next event file, so close this one.
    logger.experiment.close()
    logger.experiment.purge_step = trainer.counters.agent_steps + 1
    return logger


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
    but no class of which `callbacks` already contains an instance; and the `LoggerCallback` of `--logger`."""
    defaults: list[Callback] = [MetricsLogger(), Checkpoints(), ThreadChoice()]
    defaults += [LevelReplay()] if config.curriculum.map_sampling == "plr" else []
    used = [default for default in defaults if not any(isinstance(callback, type(default)) for callback in callbacks)]
    if config.logger == "csv":
        return used
    has_logger = find_spec(config.logger) is not None
    require(has_logger, "--logger", "csv, or installed (pip install -e '.[log]')", config.logger)
    return [*used, LoggerCallback(run_logger, "run_logger")]
