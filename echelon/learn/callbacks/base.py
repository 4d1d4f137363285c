"""Callbacks: what happens in a run between its iterations."""

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
ELSEWHERE = "another process of the run ended with an error, see its message"


class Interrupted(Exception):
    """Raised by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class Callback:
    """Base class, every method of which does nothing. Pass instances to `Trainer(callbacks=[...])`.

    All processes of a run call their own instance; only the first one (`trainer.ranks.is_first`) may write files. What
    `state_dict` returns is stored in checkpoints, under `name`, and restored by a run that resumes. To end a run, call
    `trainer.stop()`.
    """

    order: ClassVar[int] = FIRST
    """When `on_iteration_end` is called: `FIRST` in the order of the list, then `LOGGERS`, which write the row, then
    `CHECKPOINTS`."""

    @property
    def name(self) -> str:
        """Name of its state in a checkpoint: an identifier, unique in a run and not of a component of the trainer."""
        return type(self).__name__

    def setup(self, trainer: TrainingRun) -> None:
        """Called once, by the constructor of the trainer, before its own state is restored."""

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Before the first iteration, after the first checkpoint was written."""

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        """Before an iteration."""

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """After an iteration. What is added to `metrics` reaches `metrics.csv`: a new name begins a new column."""

    def on_stage(self, trainer: TrainingRun) -> None:
        """After the curriculum entered the stage `trainer.curriculum.stage`, behind `on_iteration_end`."""

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        """After an evaluation, on the first process only; see `echelon.arena.evaluator.Score`."""

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        """After battles of an evaluation were recorded, on the first process only, before its `on_evaluation`."""

    def on_checkpoint(self, trainer: TrainingRun, path: Path) -> None:
        """After a new checkpoint was written, on every process; its state is that of before."""

    def on_run_end(self, trainer: TrainingRun) -> None:
        """After the last iteration, unless an error or a signal ended the run."""

    def close(self) -> None:
        """After the run, whatever ended it."""

    def state_dict(self) -> StateDict:
        """What a checkpoint is to store; nothing by default."""
        return StateDict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what `state_dict` returned."""


@dataclass
class Requests:
    """What the callbacks of this process ask of the run; `CallbackList` shares it with all processes."""

    stop: bool = False
    """Whether to end it after this iteration."""
    checkpoint: bool = False
    """Whether to write a checkpoint of this iteration."""


class CallbackList:
    """Calls all callbacks of a run, and lets its processes agree on errors, signals and requests.

    Args:
        callbacks: the callbacks, in the order of their calls where `Callback.order` is equal.
    """

    def __init__(self, callbacks: Sequence[Callback], taken: Sequence[str] = ()) -> None:
        for callback in callbacks:
            require(isinstance(callback, Callback), "callbacks", "instances of subclasses of Callback", callback)
        self.all = sorted(callbacks, key=lambda callback: callback.order)
        names = [callback.name for callback in self.all]
        require(len(set(names)) == len(names), "callbacks", "of different names (see Callback.name)", names)
        for name in names:
            require(name.isidentifier() and name not in taken, "Callback.name", f"an identifier not in {taken}", name)

    def setup(self, trainer: TrainingRun, states: Mapping[str, StateDict]) -> None:
        """Set each callback up and restore its state, if there is one by its name; the first error closes all."""

        def begin(callback: Callback) -> None:
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
            # Behind the first error none is set up, which might write into the folder.
            error = error or self._attempt([callback], begin)
        if trainer.ranks.max(float(error is not None)) > 0:
            self.close()
            raise error or ConfigError(ELSEWHERE)

    def on_run_start(self, trainer: TrainingRun) -> None:
        self._agree(trainer, self._attempt(self.all, lambda callback: callback.on_run_start(trainer)))
        # This iteration has a checkpoint.
        trainer.requests.checkpoint = False

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        self._agree(trainer, self._attempt(self.all, lambda callback: callback.on_iteration_start(trainer)))

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics, is_new_stage: bool) -> None:
        """`Callback.on_iteration_end` and, in a new stage, `Callback.on_stage`; then those that write checkpoints."""
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
        """See `Callback`; each is closed, whatever becomes of the others."""
        error = self._attempt(self.all, lambda callback: callback.close())
        if error is not None:
            raise error

    @staticmethod
    def _attempt(callbacks: Sequence[Callback], call: Callable[[Callback], None]) -> Exception | SystemExit | None:
        """Call every callback, whatever becomes of the others; returns the first error."""
        first: Exception | SystemExit | None = None
        for callback in callbacks:
            try:
                call(callback)
            except (Exception, SystemExit) as error:
                first = first or error
        return first

    @staticmethod
    def _agree(trainer: TrainingRun, error: Exception | SystemExit | None) -> None:
        """Share errors and requests between all processes, in one all-reduce; either may end the run, saved."""
        requests = trainer.requests
        maxima = trainer.ranks.maxima([error is not None, trainer.pending_signal(), requests.stop, requests.checkpoint])
        failed, signal, stop, checkpoint = (int(value) for value in maxima)
        trainer.requests, trainer.stopped = Requests(bool(stop), bool(checkpoint)), bool(stop)
        if failed:
            # The error itself may be that of a full disk, or of `on_checkpoint`.
            with contextlib.suppress(Exception):
                trainer.save()
            raise error or ConfigError(ELSEWHERE)
        if signal:
            trainer.save()
            raise Interrupted(signal)


class TrainingRun:
    """A run as its callbacks see it; `echelon.learn.trainer.Trainer` is one."""

    config: TrainConfig
    folder: Path
    """Where checkpoints and metrics go."""
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
    """What is to be learnt on each map; None where maps are drawn uniformly."""
    callbacks: CallbackList
    requests: Requests
    stopped: bool
    """Whether the processes have agreed to end the run, because a callback of one asked for it."""
    last: int | None
    """Iteration after which `train` ends; None for no limit but that of the config."""
    pending_signal: Callable[[], int]
    """Number of the signal that this process was sent, 0 for none; a callback may replace it."""
    run_interruptible: Callable[[Callable[[], None]], None]
    """Runs work that may be repeated later and that a signal may abort; a callback may replace it."""
    best: int | None
    """Iteration of the best checkpoint, which is never pruned."""
    resumed_from: Path | None
    """Checkpoint that the run goes on from."""
    resume_note: str
    """One line about what differs from the checkpoint's battles; empty where these go on."""
    rehearsal_note: str = ""
    """One line about what a rehearsal on a GPU found; empty elsewhere."""
    changed: dict[str, tuple[Any, Any]]
    """Each setting that differs from the checkpoint's, by dotted name: the value there and the one here."""
    changes: list[dict[str, Any]]
    """Settings that this resume or an earlier one has changed, see `Checkpoint.changes`."""

    def save(self) -> Path:
        """Write a checkpoint, unless this iteration has one, and prune earlier ones; returns its path."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the run after this iteration, with a checkpoint; for callbacks of any process, at any time."""
        self.requests.stop = True

    def log(self, message: str) -> None:
        """Log one line about this moment of the run, on the first process; a `ProgressBar` prints it."""
        self.log_plain(f"{self.counters.agent_steps:>12,} steps, {message}")

    def log_plain(self, message: str) -> None:
        """`log` without the moment."""
        if self.ranks.is_first:
            logger.info("%s", message)

    @property
    def progress(self) -> float:
        """Completed share of the run, 0..1: the larger of that by agent steps and by time."""
        by_steps = self.counters.agent_steps / self.config.total_agent_steps
        limit_s = 60 * self.config.max_minutes
        return min(1.0, max(by_steps, self.counters.seconds / limit_s if limit_s > 0 else 0.0))

    @property
    def finished(self) -> bool:
        """Whether the limit of agent steps or of time is reached."""
        return self.progress >= 1.0

    @property
    def ended(self) -> bool:
        """Whether the run ends here: finished, stopped, or after as many iterations as `train` was told; the same on
        all processes."""
        return self.finished or self.stopped or self.counters.iterations == self.last


def load_callbacks(names: Sequence[str]) -> list[Callback]:
    """Build the callbacks `package.module:Callback`, which are called without arguments."""
    return [build(name) for name in names]


def build(name: str) -> Callback:
    """The callback of one name; an error of the user's own code is told in one line."""
    kind = import_object(name)
    with in_one_line(f"--callbacks {name} must be callable without arguments"):
        callback = kind()
    limit = "a subclass of echelon.learn.callbacks.base.Callback"
    require(isinstance(callback, Callback), f"--callbacks {name}", limit, type(callback).__name__)
    return callback
