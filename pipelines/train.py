"""Train a policy: `python pipelines/train.py [--preset quick|standard|large] [--opponent heuristic:normal|self] …`.

On K GPUs: `torchrun --nproc-per-node K pipelines/train.py …`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
import tyro
from echelon.pipelines.console import parse, run, terminal
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.arena.eval_callback import BEST, EvalCallback, Score, format_row
from echelon.league.league_arena import LeagueArena
from echelon.league.league_callback import LeagueCallback
from echelon.league.opponent_sampler import OpponentSampler
from echelon.league.store import Store
from echelon.learn.callbacks.signals import EXIT_BASE, Interrupted, Stop
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.checkpoint.retention import checkpoint_path
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.curriculum import stages_of
from echelon.learn.metrics import read_metrics, read_table
from echelon.learn.trainer import Trainer
from echelon.replay.file import save
from echelon.rules.config import battle_difference
from echelon.runtime.device import can_compile, resolve_device
from echelon.runtime.distributed import Ranks, destroy_ranks, init_ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, check_writable, held
from echelon.runtime.profiling import profiled
from echelon.view.plots import draw_metrics

CAMPAIGN = "campaign"
"""Key of the state of `LeagueCallback` in a checkpoint."""
LOCK = ".lock"
"""Lock file of a run folder, held while a process trains there."""
PROFILED = 3
"""Number of the iteration that `--profile` records; the first ones include compilation."""


def read_config(arguments: list[str]) -> TrainConfig:
    """Parse the command line: a preset whose values are overridden by flags.

    Raises:
        ConfigError: if the command line is invalid.
    """
    rest, preset = [], "standard" if torch.cuda.is_available() else "quick"
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--preset":
            preset = value if equals else next(words, "")
        else:
            rest.append(word)
    names = ", ".join(TRAIN_PRESETS)
    require(preset in TRAIN_PRESETS, "--preset", f"one of {names}", preset)
    description = f"Train a policy. --preset NAME, one of {names}, sets the defaults below; now {preset}."
    return parse(lambda: tyro.cli(TrainConfig, default=TRAIN_PRESETS[preset](), args=rest, description=description))


def choose_folder(config: TrainConfig) -> Path:
    """The run folder: the one given, or the one of the resumed run, or a new one.

    Raises:
        FileError: if there is no run to resume.
    """
    is_named = "{time}" not in config.run_dir
    if config.resume not in ("", "latest") and not is_named:
        return Path(config.resume).absolute().parent.parent
    if config.resume == "latest" and not is_named:
        parent = Path(config.run_dir).parent
        runs = [found.parent for found in parent.glob("*/checkpoints")]
        if not runs:
            raise FileError(f"{parent}: expected a run to resume, found none")
        return max(runs, key=lambda folder: folder.stat().st_mtime)
    return Path(config.run_dir.replace("{time}", time.strftime("%Y%m%d-%H%M%S")))


@contextlib.contextmanager
def lock_run_folder(folder: Path, resumes: bool) -> Iterator[None]:
    """Create and lock the run folder.

    Raises:
        ConfigError: if it is not writable, or holds a run already and `resumes` is false.
        FileError: if another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--run-dir must be a writable folder, got {str(folder)!r}: {error.strerror}") from None
    with held(folder / LOCK):
        has_run = any((folder / "checkpoints").glob("[!.]*"))
        limit = "a folder without a run, or go on with --resume latest"
        require(resumes or not has_run, "--run-dir", limit, str(folder))
        yield


def find_start(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint to resume from, or None for a new run.

    Raises:
        ConfigError: if the run folder holds a later checkpoint.
    """
    if not config.resume:
        return None
    if config.resume == "latest":
        return open_checkpoint(newest_checkpoint(folder / "checkpoints"))
    start = open_checkpoint(config.resume)
    if any((folder / "checkpoints").glob("[!.]*")):
        furthest = newest_checkpoint(folder / "checkpoints")
        last = open_checkpoint(furthest).counters.iterations
        limit = f"a folder without later checkpoints than iteration {start.counters.iterations}"
        require(last <= start.counters.iterations, "--run-dir", limit, str(furthest))
    return start


class Session:
    """The training loop of one process. All processes train; the first one also evaluates, writes files and prints.

    Args:
        trainer: the trainer.
        evaluation: evaluates the policy; None except on the first process.
        league: adds the learner to a league; None if the run has none.
        stop: set by signals.
        console: for output; quiet except on the first process.
    """

    def __init__(
        self,
        trainer: Trainer,
        evaluation: EvalCallback | None,
        league: LeagueCallback | None,
        stop: Stop,
        console: Console,
    ) -> None:
        self.trainer = trainer
        self.evaluation = evaluation
        self.league = league
        self.stop = stop
        self.console = console
        self.ranks = trainer.ranks
        if evaluation is not None:
            trainer.extra_state["panel"] = evaluation
            trainer.best = evaluation.best_iteration
        if league is not None and self.ranks.is_first:
            trainer.extra_state[CAMPAIGN] = league
            if CAMPAIGN in trainer.loaded:
                league.load_state_dict(trainer.loaded[CAMPAIGN])

    def learn(self) -> None:
        """Iterate until the run is finished, behind a progress bar."""
        trainer, console = self.trainer, self.console
        columns = (
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        if trainer.counters.iterations > 0:
            # An interrupted run may have saved the checkpoint without adding it to the league.
            self.submit_if_due()
        stage = trainer.curriculum.stage
        console.print(f"{stage}")
        with Progress(*columns, console=console, speed_estimate_period=120) as progress:
            task = progress.add_task("first iteration", total=1.0)
            progress.update(task, completed=trainer.progress)
            while not trainer.finished:
                self.evaluate_if_due()
                wanted = trainer.config.profile if self.ranks.is_first else ""
                is_chosen = wanted and trainer.counters.iterations == PROFILED - 1
                with profiled(Path(wanted) if is_chosen else None):
                    row = trainer.iterate()
                iterations, steps = trainer.counters.iterations, trainer.counters.agent_steps
                text = describe(row)
                progress.update(task, completed=trainer.progress, description=text)
                if not console.is_terminal and iterations % 10 == 0:
                    console.print(f"{steps:>12,} steps, {text}")
                if trainer.curriculum.stage != stage:
                    stage = trainer.curriculum.stage
                    console.print(f"{steps:>12,} steps, {stage}")
                self.submit_if_due()
                self.exit_if_asked()

    def evaluate_if_due(self) -> None:
        """Evaluate before the run and every `evaluation.every` iterations; save a new best policy as a checkpoint."""
        trainer, every = self.trainer, self.trainer.config.evaluation.every
        now = trainer.counters.iterations
        if now > 0 and (every == 0 or now % every > 0):
            return
        is_due = self.evaluation is not None and self.evaluation.last_iteration != now
        if self.ranks.max(float(is_due)) == 0:
            return
        is_best = False
        if (evaluation := self.evaluation) is not None:
            scores: list[Score] = []
            self.stop.run_interruptible(lambda: scores.extend(evaluation.evaluate()))
            if scores:
                is_best = evaluation.update_best(scores, now) and now > 0
                trainer.best = evaluation.best_iteration
                self.record_scores(scores)
        self.exit_if_asked()
        if self.ranks.max(float(is_best)) > 0:
            self.console.print(f"{'':>12} best so far, kept as {trainer.save()}")

    def record_scores(self, scores: list[Score]) -> None:
        """Print an evaluation and append it to `evaluations.csv`."""
        assert self.evaluation is not None
        counters = self.trainer.counters
        self.evaluation.record(scores, counters.iterations, counters.agent_steps, counters.seconds)
        for score in scores:
            self.console.print(f"{counters.agent_steps:>12,} steps, {counters.seconds / 60:5.1f} min, against {score}")

    def submit_if_due(self) -> None:
        """Add the learner to its league every `league_every` iterations and at the end."""
        trainer, league = self.trainer, self.league
        is_due = trainer.counters.iterations % trainer.config.league_every == 0 or trainer.finished
        if league is None or not is_due:
            return
        path = trainer.save()
        me = league.submit(path).id if self.ranks.is_first else ""
        # All processes sample opponents from the updated league.
        league.sampler.set_learner(self.ranks.broadcast_text(me))
        self.console.print(f"{trainer.counters.agent_steps:>12,} steps, in the league {league.standing()}")

    def exit_if_asked(self) -> None:
        """Raise `Interrupted` on all processes if any of them got a signal."""
        number = int(self.ranks.max(float(self.stop.signal)))
        if number > 0:
            raise Interrupted(number)

    def save_and_exit(self, number: int) -> None:
        """Save a checkpoint, print the command that resumes the run, and exit with the code of the signal."""
        path = self.trainer.save()
        self.trainer.close()
        name, iterations = signal.Signals(number).name, self.trainer.counters.iterations
        self.console.print(f"{name}: stopped after iteration {iterations}, saved as {path}; go on with")
        self.console.print(resume_command(sys.argv, self.trainer.folder, self.ranks), markup=False, highlight=False)
        sys.exit(EXIT_BASE + number)

    def finish(self) -> None:
        """Run the final evaluation, partly recorded if configured, and print a summary."""
        scores: list[Score] = []
        if (evaluation := self.evaluation) is not None:
            self.stop.run_interruptible(lambda: scores.extend(self.evaluate_final(evaluation)))
        self.exit_if_asked()
        self.trainer.close()
        if evaluation is not None:
            evaluation.update_best(scores, self.trainer.counters.iterations)
            self.print_summary(evaluation)

    def evaluate_final(self, evaluation: EvalCallback) -> list[Score]:
        """Play the final evaluation, print its scores and save its replay."""
        folder = self.trainer.folder
        scores, replay = evaluation.evaluate_final(self.trainer.config.replay_battles, str(folder))
        self.record_scores(scores)
        if replay is not None:
            kept = folder / "evaluation.echelon"
            save(replay, kept)
            self.console.print(f"replay      {kept}")
        return scores

    def print_summary(self, evaluation: EvalCallback) -> None:
        """Print scores before and after training and the paths of all files, and plot the metrics."""
        folder, console = self.trainer.folder, self.console
        rows = read_table(evaluation.table.path)
        for when, iteration in (("before", rows[0]["iteration"]), ("after ", rows[-1]["iteration"])):
            for row in rows:
                if row["iteration"] == iteration and row["rival"] != BEST:
                    console.print(f"{when} against {format_row(row)}")
        metrics, plot = folder / "metrics.csv", folder / "metrics.png"
        draw_metrics(read_metrics(metrics), rows, plot)
        console.print(f"metrics     {metrics}\nevaluations {evaluation.table.path}\nplot        {plot}")
        best = checkpoint_path(folder, evaluation.best_iteration)
        if best.exists():
            console.print(f"best        {best}")
        console.print(f"checkpoint  {newest_checkpoint(folder / 'checkpoints')}")


def join_league(config: TrainConfig, device: torch.device, ranks: Ranks) -> LeagueCallback | None:
    """Callback for the league named by `--opponent`; None if it names none.

    Raises:
        ConfigError: if the league has another battle.
    """
    if not config.league:
        return None
    store = Store(config.league)
    difference = battle_difference(config.env.signature(), store.env.signature())
    require(difference is None, "--opponent", f"a league of the same battle ({difference})", config.league)
    arena = LeagueArena(store, ranks.place(device), compiled=config.evaluation.compiled)
    sampler = OpponentSampler(store, config.model, config.seed + ranks.rank)
    return LeagueCallback(arena, sampler, config.league_seeds)


def describe(row: Mapping[str, float | None]) -> str:
    """Format the metrics of an iteration as one line."""
    text = f"{row['agent_steps_per_s']:,.0f} agent-steps/s"
    if row["win_rate"] is not None:
        text += f", wins {row['win_rate']:.0%}, return {row['return']:.2f}"
    return text + f", entropy {row['entropy']:.2f}, KL {row['kl']:.3f}"


def resume_command(arguments: list[str], folder: Path, ranks: Ranks) -> str:
    """Command line that resumes the run that was started with `arguments`."""
    kept: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in ("--resume", "--run-dir"):
            kept.append(word)
        elif not equals:
            next(words, "")
    program = ["python"] if ranks.is_alone else ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]
    return shlex.join([*program, arguments[0], *kept, "--run-dir", str(folder), "--resume", "latest"])


def train(config: TrainConfig, ranks: Ranks, stop: Stop) -> None:
    """Train with evaluations before, during and after, and print a summary.

    Args:
        config: config of the run.
        ranks: this process among all.
        stop: set by signals.

    Raises:
        ConfigError: if the config is invalid.
        FileError: if a file cannot be read or written.
    """
    console = terminal(quiet=not ranks.is_first)
    device = resolve_device(config.device)
    stages_of(config)
    if config.compiled and not can_compile():
        console.print("no C++ compiler or Python headers here: going on without torch.compile, at a third of the speed")
        config = dataclasses.replace(config, compiled=False, compile_policy="off")
    league = join_league(config, device, ranks)
    folder = Path(ranks.broadcast_text(str(choose_folder(config))))
    if config.resume == "latest":
        # Fail before the folder is created.
        newest_checkpoint(folder / "checkpoints")
    with lock_run_folder(folder, resumes=bool(config.resume)) if ranks.is_first else contextlib.nullcontext():
        train_in(folder, config, league, ranks, stop, console)


def train_in(
    folder: Path, config: TrainConfig, league: LeagueCallback | None, ranks: Ranks, stop: Stop, console: Console
) -> None:
    """`train` in a locked run folder."""
    if ranks.is_first and config.profile:
        check_writable(Path(config.profile))
    # No process reads before the folder is locked, and none writes before all have read.
    ranks.barrier()
    start = find_start(config, folder)
    ranks.barrier()
    draw_opponent = league.sampler if league is not None else None
    trainer = Trainer(config, folder, start, draw_opponent, ranks=ranks)
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    sizes += "" if ranks.is_alone else f" in each of {ranks.size} processes"
    kind = str(trainer.policy.network.compute).removeprefix("torch.")
    console.print(
        f"{sizes} on {trainer.device}, {trainer.policy.num_parameters():,} parameters in {kind}, {config.opponent}"
    )
    if trainer.resume_note:
        console.print(trainer.resume_note)
    if league is not None and not league.sampler.shares and config.past_battles > 0:
        console.print(
            f"{config.league}: no policy there has this architecture (--model): until one has, "
            f"{config.past_battles} of {config.num_envs} battles are against earlier selves"
        )
    evaluation = EvalCallback(trainer.policy, config, folder, trainer.loaded.get("panel")) if ranks.is_first else None
    session = Session(trainer, evaluation, league, stop, console)
    # From here on a killed run can be resumed.
    trainer.save()
    try:
        session.learn()
        session.finish()
    except Interrupted as interrupt:
        session.save_and_exit(interrupt.number)


def main() -> None:
    """Join the other processes, if there are any, and train until finished or interrupted."""
    config = read_config(sys.argv[1:])
    ranks = init_ranks()
    with Stop() as stop:
        try:
            train(config, ranks, stop)
        except (ConfigError, FileError) as error:
            raise ConfigError(ranks.with_rank(str(error))) from None
        except RuntimeError as error:
            explained = ranks.explain_failure(error)
            if explained is None:
                raise
            # Print while signals are still handled: the launcher sends one as soon as a process has died.
            print(f"error: {explained}", file=sys.stderr, flush=True)
            sys.exit(1)
    destroy_ranks(ranks)


def program() -> None:
    """The console script `echelon-train`."""
    run(main)


if __name__ == "__main__":
    program()
