"""Shows the progress of a run on a terminal."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.config import PAST, SELF
from echelon.runtime.errors import one_line, quoted, rounded

COLUMNS = (
    *(BarColumn(), TextColumn("{task.percentage:3.0f}%"), TextColumn("{task.description}")),
    *(TimeElapsedColumn(), TimeRemainingColumn()),
)
PRINTED_EVERY = 10
"""Number of iterations between two printed lines if the output is not a terminal."""


class ConsoleHandler(logging.Handler):
    """Prints the log messages of a run above its progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(one_line(record.getMessage()), markup=False, highlight=False, emoji=False, soft_wrap=True)


class ProgressBar(Callback):
    """Shows a progress bar with speed and win rate, and prints log messages above the bar, on the first process."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.bar = Progress(*COLUMNS, console=self.console, speed_estimate_period=120)
        self.task: TaskID | None = None
        self.handler = ConsoleHandler(self.console)
        self.logger = logging.getLogger("echelon")

    def setup(self, trainer: TrainingRun) -> None:
        if not trainer.ranks.is_first:
            self.console.quiet = True
        self.logger.addHandler(self.handler)
        self.logger.setLevel(logging.INFO)
        self.console.print(describe_run(trainer), highlight=False)
        if trainer.resumed_from is not None:
            self.console.print(f"resumes from {one_line(str(trainer.resumed_from))}", highlight=False)
            if trainer.finished:
                self.console.print("the run is finished: continue with a higher --total-agent-steps or --max-minutes")
        elif trainer.config.init_from:
            self.console.print(f"starts with the weights of {one_line(trainer.config.init_from)}", highlight=False)
        if trainer.rehearsal_note:
            self.console.print(trainer.rehearsal_note, highlight=False)
        if trainer.resume_note:
            self.console.print(one_line(trainer.resume_note), highlight=False)
        for name, (before, now) in trainer.changed.items():
            line = f"{name}: {quoted(now)} from now on, {quoted(before)} in the checkpoint"
            self.console.print(one_line(line), markup=False, highlight=False)

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Show the progress bar; this may be called several times, because `Trainer.train` may."""
        self.logger.addHandler(self.handler)
        self.console.print(stage_of(trainer), highlight=False)
        if not trainer.ended:
            self.task = self.bar.add_task("starting", total=1.0)
            self.bar.update(self.task, completed=trainer.progress)
            self.bar.start()

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Update the bar; if the output is not a terminal, print a line every `PRINTED_EVERY` iterations."""
        text = describe_iteration(metrics)
        if self.task is not None:
            self.bar.update(self.task, completed=trainer.progress, description=text)
        if not self.console.is_terminal and trainer.counters.iterations % PRINTED_EVERY == 0:
            trainer.log(text)

    def on_stage(self, trainer: TrainingRun) -> None:
        trainer.log(stage_of(trainer))

    def on_run_end(self, trainer: TrainingRun) -> None:
        self.bar.stop()

    def close(self) -> None:
        self.bar.stop()
        self.logger.removeHandler(self.handler)


class OnIteration(Callback):
    """Calls a function after every iteration.

    Args:
        call: the function, called without arguments.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        self.call()


def describe_run(trainer: TrainingRun) -> str:
    """Return one line with the sizes, device, precision and opponent of a run."""
    config, ranks = trainer.config, trainer.ranks
    sizes = f"{config.num_envs} battles of {len(config.env.blue)} against {len(config.env.red)}"
    sizes += "" if ranks.is_alone else f" in each of {ranks.size} processes"
    kind = str(trainer.policy.network.compute).removeprefix("torch.")
    return f"{sizes} on {trainer.device}, {trainer.policy.num_parameters():,} parameters in {kind}, {config.opponent}"


def describe_iteration(metrics: Mapping[str, float | None]) -> str:
    """Return one line with the speed, win rate, return, entropy and KL divergence of an iteration."""
    text = f"{metrics['agent_steps_per_s']:,.0f} agent-steps/s"
    if metrics["win_rate"] is not None:
        text += f", wins {metrics['win_rate']:.0%}, return {rounded(metrics['return'] or 0.0, 2):.2f}"
    return text + f", entropy {metrics['entropy']:.2f}, KL {rounded(metrics['kl'] or 0.0, 3):.3f}"


def stage_of(trainer: TrainingRun) -> str:
    """Describe the curriculum stage; in self-play and leagues, name the run's opponent instead of the stage's."""
    config, stage = trainer.config, trainer.curriculum.stage
    is_met = config.opponent not in (SELF, PAST) and not config.league
    return str(stage if is_met else dataclasses.replace(stage, opponent=config.opponent))
