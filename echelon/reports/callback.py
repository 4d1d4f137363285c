"""Callbacks that write a run's `report.html`, curves for a paper, videos, and pictures for a logger."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from echelon.arena.evaluator import BEHAVIOUR
from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.callbacks.loggers import LoggerCallback
from echelon.learn.metrics import read_metrics, read_table
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.reports.data import report_of
from echelon.reports.plots import metrics_figure
from echelon.runtime.errors import ConfigError, missing_package, one_line
from echelon.runtime.files import FileError
from echelon.viewer.battle_picture import strip_pixels
from echelon.viewer.exporters.course import BattleTimeline
from echelon.viewer.pages import hit_distances, replay_page, write_report
from echelon.viewer.paper import save

REPORT, REPLAY = "report.html", "evaluation.echelon"
CURVES = ("metrics.png", "metrics.pdf")
EVERY_S, MOST_SHARE = 60.0, 0.01
"""Minimum time between two reports without an evaluation, and the largest share of the run time that they may take."""


def attempt(trainer: TrainingRun, work: Callable[[TrainingRun], None]) -> None:
    """Run optional work such as drawing; if it fails, log the reason and continue."""
    try:
        work(trainer)
    except FileError as error:
        trainer.log_plain(str(error))
    except Exception as error:
        trainer.log_plain(one_line(f"drawing failed, the run continues: {type(error).__name__}: {error}"))


class Pictures(Callback):
    """Base class of callbacks that draw pictures on the first process. A failure is logged and does not end the run."""

    def __init__(self) -> None:
        self.trainer: TrainingRun | None = None
        """None before the run and on other processes."""
        self.is_due = False
        """Whether there is new data since the last picture."""

    def on_run_start(self, trainer: TrainingRun) -> None:
        self.trainer = trainer if trainer.ranks.is_first else None

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        self.is_due = True

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        self.trainer = trainer
        self.attempt(trainer, self.draw)

    def close(self) -> None:
        """Draw the last state of a run that was interrupted or failed with an error."""
        if self.trainer is not None and self.is_due:
            self.attempt(self.trainer, self.draw)
        self.trainer = None

    def draw(self, trainer: TrainingRun) -> None:
        raise NotImplementedError

    def attempt(self, trainer: TrainingRun, work: Callable[[TrainingRun], None]) -> None:
        self.is_due = False
        attempt(trainer, work)


class Curves(Pictures):
    """Draws `metrics.png` and `metrics.pdf` at evaluations (at most once a minute) and when the run ends or stops."""

    def __init__(self) -> None:
        super().__init__()
        self.next_s = time.monotonic() + EVERY_S
        """Earliest time of the next drawing."""

    def on_evaluation(self, trainer: TrainingRun, scores: Sequence[Any]) -> None:
        if time.monotonic() >= self.next_s:
            super().on_evaluation(trainer, scores)
        else:
            self.is_due = True

    def on_run_end(self, trainer: TrainingRun) -> None:
        self.close()

    def draw(self, trainer: TrainingRun) -> None:
        folder = trainer.folder
        rows, evaluations = read_metrics(folder / "metrics.csv"), read_table(folder / "evaluations.csv")
        save(metrics_figure(rows, evaluations), *(folder / name for name in CURVES))
        self.next_s = time.monotonic() + EVERY_S


class Report(Pictures):
    """Writes `report.html` at the start, at evaluations, at the end, and in between at most every `every_s` seconds.

    Args:
        every_s: seconds.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        super().__init__()
        self.every_s = every_s
        self.next_s = 0.0
        """Earliest time of the next report."""
        self.state = "running"
        self.page, self.battle = "", ""
        """The page of the last recorded battle, and its description."""
        self.distances: list[dict[str, Any]] = []

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Load the battle that was recorded before the run was resumed, if any, and write a first report."""
        super().on_run_start(trainer)
        if self.trainer is None:
            return
        self.state = "running"
        if not self.page and (trainer.folder / REPLAY).exists():
            self.attempt(trainer, lambda run: self._take(read(run.folder / REPLAY)))
        self.attempt(trainer, self.draw)

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Write a report if it is due; the metrics row of the current iteration is not in the table yet."""
        if self.trainer is not None and time.monotonic() >= self.next_s:
            self.attempt(trainer, self.draw)
        super().on_iteration_end(trainer, metrics)

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        self.attempt(trainer, lambda run: self._take(replay))

    def on_run_end(self, trainer: TrainingRun) -> None:
        if self.trainer is not None:
            self.state = "finished"
            self.attempt(trainer, self.draw)

    def close(self) -> None:
        if self.state != "finished":
            self.state, self.is_due = "stopped", True
        super().close()

    def _take(self, replay: Replay) -> None:
        first = replay.battles[0]
        blue, red, outcome = first.about["blue"], first.about["red"], first.about["outcome"]
        length = first.decisions * replay.about["dt_s"] * replay.about["decision_repeat"]
        result = f"winner: {outcome['winner']}, by {outcome['reason'].replace('_', ' ')}, after {length:.0f} s"
        self.page = replay_page(replay, rebuild(replay, first))
        self.battle = one_line(f"{blue} (blue) against {red} (red); {result}.")
        # In the first of the two battles of each seed, the learner is the blue team.
        self.distances = hit_distances(replay, first, "blue")

    def draw(self, trainer: TrainingRun) -> None:
        folder, start_s = trainer.folder, time.monotonic()
        hint = "No battle was recorded; --replay-battles 1 records one at every evaluation."
        evaluations, behaviour = (read_table(folder / name) for name in ("evaluations.csv", BEHAVIOUR))
        battle, rows = self.battle or hint, read_metrics(folder / "metrics.csv")
        report = report_of(trainer, rows, evaluations, behaviour, self.state, self.distances, battle)
        write_report(report, folder / REPORT, self.page)
        now_s = time.monotonic()
        # Reading a very long table takes seconds, so limit the share of time spent on reports.
        self.next_s = now_s + max(self.every_s, (now_s - start_s) / MOST_SHARE)


class BattleVideos(Callback):
    """Writes the recorded battles of every evaluation as videos `videos/iteration_N-BATTLE.mp4` in the run's folder.

    A signal stops the writing of videos. The video that is being written at this moment is discarded.

    Args:
        battles: number of videos per evaluation; by default `EvalConfig.video`. Record as many battles.
    """

    def __init__(self, battles: int = 0) -> None:
        self.battles = battles

    def setup(self, trainer: TrainingRun) -> None:
        self.battles = self.battles or trainer.config.evaluation.video
        if self.battles and find_spec("av") is None:
            raise ConfigError(missing_package("--evaluation.video", "av", "export"))

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        if self.battles:
            attempt(trainer, lambda run: run.run_interruptible(partial(self.write, run, replay)))

    def write(self, trainer: TrainingRun, replay: Replay) -> None:
        from echelon.viewer.exporters import video

        folder = trainer.folder / "videos"
        folder.mkdir(exist_ok=True)
        for index, battle in enumerate(replay.battles[: self.battles]):
            course = BattleTimeline(replay, index, rebuild(replay, battle))
            video.write(course, folder / f"iteration_{trainer.counters.iterations:06}-{index + 1}.mp4", quiet=True)


class BattleStrips(Callback):
    """Sends a strip of pictures from each evaluation's recorded battle to each `LoggerCallback` of the run."""

    def on_replay(self, trainer: TrainingRun, replay: Replay) -> None:
        loggers = [callback for callback in trainer.callbacks.all if isinstance(callback, LoggerCallback)]
        if loggers:
            attempt(trainer, partial(self.send, loggers, replay))

    def send(self, loggers: Sequence[LoggerCallback], replay: Replay, trainer: TrainingRun) -> None:
        picture = strip_pixels(replay, 0, rebuild(replay, replay.battles[0]))
        for each in loggers:
            each.log_image(trainer, "evaluation/battle", picture)
