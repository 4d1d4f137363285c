"""The training loop of a run: evaluations, entries into a league, progress, and the end of it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.arena.eval_callback import BEST, EvalCallback, Score, format_row
from echelon.league.league_callback import LeagueCallback
from echelon.learn.callbacks.signals import EXIT_BASE, Interrupted, Stop
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.retention import checkpoint_path
from echelon.learn.metrics import read_metrics, read_table
from echelon.learn.trainer import Trainer
from echelon.replay.file import save
from echelon.runtime.distributed import Ranks
from echelon.runtime.profiling import profiled
from echelon.view.plots import draw_metrics

CAMPAIGN = "campaign"
"""Key of the state of `LeagueCallback` in a checkpoint."""
PROFILED = 3
"""Number of the iteration that `--profile` records; the first ones include compilation."""


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
