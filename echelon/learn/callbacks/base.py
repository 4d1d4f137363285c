"""Callbacks: user code that runs between the iterations of a training run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.format import Counters
from echelon.learn.config import TrainConfig
from echelon.learn.curriculum import Curriculum
from echelon.learn.levels import LevelScores
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.stage_opponents import StageOpponents
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import PPO
from echelon.replay.battle import Replay
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError
from echelon.runtime.imports import import_object, in_one_line
from echelon.runtime.tensor_files import StateDict

Metrics = dict[str, float | None]
"""A row of `metrics.csv` by column; None for an empty cell."""
FIRST, LOGGERS, CHECKPOINTS = range(3)
"""Values of `Callback.order`."""
logger = logging.getLogger(__name__)
ELSEWHERE = "another process of this run failed; see the error message of that process"


class Interrupted(Exception):
    """Raised after a signal stopped the run."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class Callback:
    """Base class of callbacks; every method does nothing by default. Pass instances to `Trainer(callbacks=[...])`.

    Each process of a run calls its own instance. Only the first process (`trainer.ranks.is_first`) may write files.
    Checkpoints store the result of `state_dict` under `name`, and a resumed run restores it. Call `trainer.stop()` to
    end the run.
    """

    order: ClassVar[int] = FIRST
    """Position of this callback in `on_iteration_end`: first `FIRST`, in the order of the list; then `LOGGERS`, which
    write the row of metrics; then `CHECKPOINTS`."""

    @property
    def name(self) -> str:
        """Key of the callback's state in a checkpoint: an identifier, unique in the run, that names no trainer
        component.
        """
        return type(self).__name__

    def setup(self, trainer: TrainingRun) -> None:
        """Called once by the trainer's constructor, before the callback's state is restored."""

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Called before the first iteration, after the first checkpoint was written."""

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        """Called before each iteration."""

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Called after each iteration. Entries added to `metrics` go to `metrics.csv`; a new name adds a column."""

    def on_stage(self, trainer: TrainingRun) -> None:
        """Called after `on_iteration_end` when the curriculum has entered a new stage, `trainer.curriculum.stage`."""

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        """Called after an evaluation, on the first process only; see `echelon.arena.evaluator.Score`."""

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        """Called when battles of an evaluation were recorded, on the first process only, before `on_evaluation`."""

    def on_checkpoint(self, trainer: TrainingRun, path: Path) -> None:
        """Called on every process after a new checkpoint was written. State that this method changes is not in the new
        checkpoint.
        """

    def on_run_end(self, trainer: TrainingRun) -> None:
        """Called after the last iteration, unless an error or a signal ended the run."""

    def close(self) -> None:
        """Called when the run ends, also after an error or a signal."""

    def state_dict(self) -> StateDict:
        """Return the state to store in checkpoints; empty by default."""
        return StateDict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the result of `state_dict`."""


@dataclass
class Requests:
    """Requests of this process's callbacks to the run; `CallbackList` shares them with all processes."""

    stop: bool = False
    """Whether to end the run after this iteration."""
    checkpoint: bool = False
    """Whether to write a checkpoint of this iteration."""


class CallbackList:
    """Calls all callbacks of a run and synchronises errors, signals and requests between its processes.

    Args:
        callbacks: the callbacks, sorted by `Callback.order`; among equal orders, the order of this list holds.
    """

    def __init__(self, callbacks: Sequence[Callback], taken: Sequence[str] = ()) -> None:
        for callback in callbacks:
            require(isinstance(callback, Callback), "callbacks", "instances of subclasses of Callback", callback)
        self.all = sorted(callbacks, key=lambda callback: callback.order)
        names = [callback.name for callback in self.all]
        require(len(set(names)) == len(names), "callbacks", "unique names (see Callback.name)", names)
        for name in names:
            require(name.isidentifier() and name not in taken, "Callback.name", f"an identifier not in {taken}", name)

    def setup(self, trainer: TrainingRun, states: Mapping[str, StateDict]) -> None:
        """Set up each callback and restore its stored state, if any. After the first error, all callbacks are
        closed.
        """

        def set_up(callback: Callback) -> None:
            is_own = type(callback).__module__.partition(".")[0] != "echelon"
            line = in_one_line(
                f"callback {callback.name}: expected setup(trainer) to succeed", (ConfigError, FileError)
            )
            with line if is_own else contextlib.nullcontext():
                callback.setup(trainer)
            if callback.name in states:
                callback.load_state_dict(states[callback.name])

        error = None
        for callback in self.all:
            # After an error, skip the setup of later callbacks, because they might write into the run folder.
            error = error or self._attempt([callback], set_up)
        if trainer.ranks.max(float(error is not None)) > 0:
            self.close()
            raise error or ConfigError(ELSEWHERE)

    def on_run_start(self, trainer: TrainingRun) -> None:
        self._agree(trainer, self._attempt(self.all, lambda callback: callback.on_run_start(trainer)))
        # Ignore checkpoint requests here, because this iteration already has a checkpoint.
        trainer.requests.checkpoint = False

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        self._agree(trainer, self._attempt(self.all, lambda callback: callback.on_iteration_start(trainer)))

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics, is_new_stage: bool) -> None:
        """Call `on_iteration_end` and, in a new stage, `on_stage`; callbacks that write checkpoints are called last."""
        early = [callback for callback in self.all if callback.order < CHECKPOINTS]
        error = self._attempt(early, lambda callback: callback.on_iteration_end(trainer, metrics))
        if is_new_stage:
            stage_error = self._attempt(self.all, lambda callback: callback.on_stage(trainer))
            error = error or stage_error
        self._agree(trainer, error)
        for callback in self.all[len(early) :]:
            callback.on_iteration_end(trainer, metrics)
        trainer.requests.checkpoint = False
        self._agree(trainer, None)

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        for callback in self.all:
            callback.on_evaluation(trainer, scores)

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        for callback in self.all:
            callback.on_replay(trainer, replay)

    def on_checkpoint(self, trainer: TrainingRun, path: Path) -> None:
        self._agree(trainer, self._attempt(self.all, lambda callback: callback.on_checkpoint(trainer, path)))

    def on_run_end(self, trainer: TrainingRun) -> None:
        for callback in self.all:
            self._agree(trainer, self._attempt([callback], lambda callback: callback.on_run_end(trainer)))

    def close(self) -> None:
        """Close every callback, even if another one fails; raise the first error."""
        error = self._attempt(self.all, lambda callback: callback.close())
        if error is not None:
            raise error

    @staticmethod
    def _attempt(callbacks: Sequence[Callback], call: Callable[[Callback], None]) -> Exception | SystemExit | None:
        """Call every callback, even if another one fails; return the first error."""
        first: Exception | SystemExit | None = None
        for callback in callbacks:
            try:
                call(callback)
            except (Exception, SystemExit) as error:
                first = first or error
        return first

    @staticmethod
    def _agree(trainer: TrainingRun, error: Exception | SystemExit | None) -> None:
        """Share errors, signals and requests between all processes in one all-reduce. After an error or a signal on any
        process, write a checkpoint and raise an exception on all processes.
        """
        requests = trainer.requests
        maxima = trainer.ranks.maxima([error is not None, trainer.pending_signal(), requests.stop, requests.checkpoint])
        failed, signal, stop, checkpoint = (int(value) for value in maxima)
        trainer.requests, trainer.stopped = Requests(bool(stop), bool(checkpoint)), bool(stop)
        if failed:
            # Saving may fail for the same reason as the callback, such as a full disk.
            with contextlib.suppress(Exception):
                trainer.save()
            raise error or ConfigError(ELSEWHERE)
        if signal:
            trainer.save()
            raise Interrupted(signal)


class TrainingRun:
    """Interface of a run for its callbacks, implemented by `echelon.learn.trainer.Trainer`."""

    config: TrainConfig
    folder: Path
    """Folder of checkpoints and metrics."""
    device: torch.device
    ranks: Ranks
    counters: Counters
    env: EchelonEnv
    policy: ActorCritic
    ppo: PPO
    collector: TeamCollector
    opponents: StageOpponents
    curriculum: Curriculum
    levels: LevelScores | None = None
    """Learnability of each map; None if maps are drawn uniformly."""
    callbacks: CallbackList
    requests: Requests
    stopped: bool
    """Whether the run ends because a callback of any process called `stop`; equal on all processes."""
    last: int | None
    """Iteration after which `train` ends; None if only the config limits the run."""
    pending_signal: Callable[[], int]
    """Return the number of the signal that this process received, 0 for none; a callback may replace this function."""
    run_interruptible: Callable[[Callable[[], None]], None]
    """Run work that a signal may abort and that may be repeated later; a callback may replace this function."""
    best: int | None
    """Iteration of the best checkpoint, which is never pruned."""
    resumed_from: Path | None
    """Checkpoint that the run resumed from; None for a new run."""
    resume_note: str
    """One line on how the battles differ from the checkpoint's; empty if the running battles are resumed."""
    rehearsal_note: str = ""
    """One line with the result of the rehearsal on a GPU; empty on other devices."""
    changed: dict[str, tuple[Any, Any]]
    """Settings that differ from the checkpoint, by dotted name: the checkpoint's value and the current value."""
    changes: list[dict[str, Any]]
    """Settings that this or an earlier resume changed, see `Checkpoint.changes`."""

    def save(self) -> Path:
        """Write a checkpoint unless this iteration has one, and delete old checkpoints; return the checkpoint's
        path.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End the run after this iteration, with a checkpoint. Callbacks of any process may call this at any time."""
        self.requests.stop = True

    def log(self, message: str) -> None:
        """Log one line prefixed with the agent steps so far, on the first process; a `ProgressBar` prints the line."""
        self.log_plain(f"{self.counters.agent_steps:>12,} steps, {message}")

    def log_plain(self, message: str) -> None:
        """Log one line without the agent steps, on the first process."""
        if self.ranks.is_first:
            logger.info("%s", message)

    @property
    def progress(self) -> float:
        """Completed fraction of the run, 0..1: the larger of the fractions by agent steps and by time."""
        by_steps = self.counters.agent_steps / self.config.total_agent_steps
        limit_s = 60 * self.config.max_minutes
        return min(1.0, max(by_steps, self.counters.seconds / limit_s if limit_s > 0 else 0.0))

    @property
    def finished(self) -> bool:
        """Whether the run reached its limit of agent steps or of time."""
        return self.progress >= 1.0

    @property
    def ended(self) -> bool:
        """Whether the run ends here: it is finished or stopped, or `train` has completed its `iterations`. Equal on all
        processes.
        """
        return self.finished or self.stopped or self.counters.iterations == self.last


def load_callbacks(names: Sequence[str]) -> list[Callback]:
    """Build callbacks named `package.module:Callback` by calling them without arguments."""
    return [build(name) for name in names]


def build(name: str) -> Callback:
    """Build the callback called `name`; an error in the user's code becomes an error message of one line."""
    kind = import_object(name)
    with in_one_line(f"--callbacks {name} must be callable without arguments"):
        callback = kind()
    limit = "a subclass of echelon.learn.callbacks.base.Callback"
    require(isinstance(callback, Callback), f"--callbacks {name}", limit, type(callback).__name__)
    return callback
