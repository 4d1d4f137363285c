"""Output of a run in progress: the report, curves, and picture strips for a logger."""

import contextlib
import dataclasses
import json
import math
import platform
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import evaluated_run, tiny_run
from torchrl.record.loggers import CSVLogger

from echelon.arena import eval_callback, skills
from echelon.arena.eval_callback import EvalCallback
from echelon.learn.callbacks.base import Callback, Interrupted
from echelon.learn.callbacks.loggers import LoggerCallback
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.metrics import read_columns, read_metrics, read_table
from echelon.learn.trainer import Trainer
from echelon.replay.file import read as read_replay
from echelon.reports import callback as report_callback
from echelon.reports import data as report_data
from echelon.reports.callback import BattleStrips, BattleVideos, Curves, Report
from echelon.reports.data import command_of, commit_of
from echelon.reports.plots import skills_figure
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.viewer.paper import save

EVALUATION = EvalConfig(every=2, battles=2, final_battles=2, tiers=("trivial",))


def told(folder) -> dict:
    """Return the data in the report of a run folder."""
    page = (folder / "report.html").read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def embedded(folder) -> str:
    """Return the embedded page of the replay."""
    page = (folder / "report.html").read_text()
    return json.loads(re.search(r'id="page">(.*?)</script>', page)[1])


class Watch(Callback):
    """Record the report after each iteration."""

    def __init__(self):
        self.states, self.iterations = [], []

    def on_iteration_end(self, trainer, metrics):
        report = told(trainer.folder)
        self.states.append(report["state"])
        self.iterations.append(len(report["axes"].get("metrics", [])))


def test_report_exists_from_start_and_follows_run(tmp_path, monkeypatch):
    monkeypatch.setattr(report_callback, "MOST_SHARE", float("inf"))
    watch = Watch()
    callbacks = [EvalCallback(), Report(every_s=0.0), Curves(), watch]
    Trainer(evaluated_run(evaluation=EVALUATION), tmp_path, callbacks=callbacks).train()
    assert watch.states == ["running"] * 3 and watch.iterations == [0, 1, 2]
    report = told(tmp_path)
    assert report["state"] == "finished" and report["progress"] == 1.0 and report["name"] == tmp_path.name
    assert [row["iteration"] for row in report["evaluations"]["rows"]] == [0, 2, 2, 3, 3]
    (latest,) = (row for row in report["evaluations"]["rows"][-2:] if row["rival"] == "heuristic:trivial")
    assert latest["low"] <= latest["win_rate"] <= latest["high"]
    titles = {chart["title"] for chart in report["charts"] if chart["lines"]}
    assert {"return", "stage", "losses", "KL divergence", "entropy", "speed, agent steps/s"} <= titles
    settings = {row[0]: row for row in report["config"]["settings"]}
    assert settings["num_envs"][1:] == ["4", "128"] and settings["seed"][1:] == ["0", None]
    assert "run_dir" not in settings and str(tmp_path) not in json.dumps(report), "no folder of this machine"
    weapons = [row[0] for row in report["behaviour"]["weapons"]["rows"]]
    assert weapons[:3] == ["laser", "flamer", "missile"] and "time in the zone, mech-s" in dict(
        (row[0], row) for row in report["behaviour"]["deeds"]["rows"]
    )
    assert "--replay-battles 1" in report["battle"] and embedded(tmp_path) == ""
    assert report["best"].startswith("best: this run's own policy")
    (speed,) = (tile for tile in report["tiles"] if tile["what"] == "speed")
    rows = read_metrics(tmp_path / "metrics.csv")
    # The table has millisecond resolution.
    expected = rows[-1]["agent_steps"] / rows[-1]["seconds"]
    assert float(speed["value"].replace(",", "")) == pytest.approx(expected, rel=0.02), "steps by time"
    assert f"{rows[-1]['agent_steps_per_s']:,.0f} in the last iteration" in speed["detail"]
    origin = dict(report["origin"])
    assert platform.node() in origin["host"] and f"torch {torch.__version__.partition('+')[0]}" in origin["versions"]
    assert origin["command"] and ("commit" in origin) == (Path(__file__).parents[2] / ".git").exists()
    assert (tmp_path / "metrics.png").exists() and (tmp_path / "metrics.pdf").read_bytes().startswith(b"%PDF")


def test_report_warns_if_run_does_not_learn():
    row = {"entropy_move": 0.69, "explained_variance": 0.8, "epochs": 1.0, "kl": 0.05, "skipped": 0.0}
    trainer = SimpleNamespace(config=TrainConfig.quick(), progress=0.5)
    assert report_data.signs_of(trainer, []) == []
    limited, random = report_data.signs_of(trainer, [row] * 21)
    assert limited.startswith("updates end early") and random.startswith("actions are as random")


def test_reported_command_omits_folders(tmp_path):
    words = ["/home/user/echelon/pipelines/train.py", "--run-dir=/home/user/runs/one two", "--seed", "3"]
    assert command_of(words) == "train.py '--run-dir=one two' --seed 3"
    assert command_of(["pipelines/train.py", "--run-dir", "runs/mine"]) == "pipelines/train.py --run-dir runs/mine"
    assert commit_of(tmp_path) == "", "no clone"


def test_gpu_memory_is_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**29)
    monkeypatch.setattr(report_data, "total_memory", lambda device: 80 * 2**30)
    (tile,) = report_data.memory_tiles(torch.device("cuda:0"))
    assert tile["value"] == "1.5" and tile["detail"].startswith("GiB of 80.0")
    assert report_data.memory_tiles(torch.device("cpu")) == []


def test_report_rounds_to_unsigned_zero():
    rows = [{"agent_steps": 1.0, "kl": -0.0}, {"agent_steps": 2.0, "kl": -0.0}]
    shown = report_data.means(rows, "kl", np.array([0, 1]))
    assert [str(value) for value in shown] == ["0.0", "0.0"]


def test_report_is_written_rarely_between_evaluations(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(report_callback, "write_report", lambda report, path, page: written.append(report["state"]))
    Trainer(tiny_run(), tmp_path, callbacks=[Report(every_s=1e9)]).train()
    assert written == ["running", "finished"]


class Stops(Callback):
    def on_iteration_end(self, trainer, metrics):
        if trainer.counters.iterations == 2:
            trainer.pending_signal = lambda: 2


def test_interrupted_run_keeps_curves_and_reports_interrupt(tmp_path):
    with pytest.raises(Interrupted):
        Trainer(tiny_run(), tmp_path, callbacks=[Curves(), Report(1e9), Stops()]).train()
    assert told(tmp_path)["state"] == "stopped" and len(told(tmp_path)["axes"]["metrics"]) == 2
    assert (tmp_path / "metrics.pdf").exists() and (tmp_path / "metrics.png").exists()


def test_full_disk_does_not_end_run(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise FileError("report.html: cannot be written: No space left on device")

    monkeypatch.setattr(report_callback, "write_report", full)
    monkeypatch.setattr(report_callback, "metrics_figure", full)
    with caplog.at_level("INFO", "echelon"):
        Trainer(tiny_run(), tmp_path, callbacks=[Curves(), Report(0.0)]).train()
    assert len(read_metrics(tmp_path / "metrics.csv")) == 3 and "No space left on device" in caplog.text


def test_failing_picture_does_not_end_run(tmp_path, monkeypatch, caplog):
    """Any error, for example of a font, of LaTeX or of a logger."""

    def fails(*_):
        raise RuntimeError("latex could not be found\nsee the log")

    monkeypatch.setattr(report_callback, "write_report", fails)
    monkeypatch.setattr(report_callback, "metrics_figure", fails)
    monkeypatch.setattr(report_callback, "strip_pixels", fails)
    monkeypatch.setattr(report_callback, "rebuild", lambda *_: None)
    with caplog.at_level("INFO", "echelon"):
        trainer = Trainer(
            tiny_run(), tmp_path, callbacks=[Curves(), Report(0.0), BattleStrips(), LoggerCallback(Board(tmp_path))]
        )
        trainer.train()
        BattleStrips().on_replay(trainer, SimpleNamespace(battles=[None]))
    assert len(read_metrics(tmp_path / "metrics.csv")) == 3
    lines = [record.getMessage() for record in caplog.records if "RuntimeError: latex" in record.getMessage()]
    assert len(lines) >= 3 and all(line.isprintable() for line in lines)


class Board(CSVLogger):
    """A logger that takes images, as that of TensorBoard does."""

    def __init__(self, folder):
        super().__init__("board", str(folder))
        self.scalars, self.images = {}, []
        self.experiment.add_image = lambda *words, dataformats: self.images.append((*words, dataformats))

    def log_scalar(self, name, value, step=None):
        self.scalars.setdefault(name, []).append(step)


@pytest.mark.long
def test_recorded_battles_embed_replay_and_log_strip(tmp_path):
    """The logger also receives the columns of both tables."""
    board = Board(tmp_path / "board")
    callbacks = [EvalCallback(), BattleStrips(), Report(1e9), LoggerCallback(board)]
    Trainer(tiny_run(evaluation=EVALUATION, replay_battles=2), tmp_path, callbacks=callbacks).train()
    page = embedded(tmp_path)
    assert page.lower().startswith("<!doctype html>") and len(page) > 50_000
    name = f"{tmp_path.name}/iteration_000003"
    assert told(tmp_path)["battle"].startswith(f"{name} (blue) against heuristic:trivial (red); winner: ")
    assert str(tmp_path) not in told(tmp_path)["battle"], "no path"
    assert [image[0] for image in board.images] == ["evaluation/battle"] * 3
    assert [image[2] for image in board.images] == [0, 320, 480]
    picture = board.images[0][1]
    assert picture.dtype == np.uint8 and picture.shape[2] == 3 and picture.std() > 10
    filled = set().union(*read_metrics(tmp_path / "metrics.csv")) - {"iteration", "agent_steps"}
    assert filled <= set(board.scalars)
    for row in read_table(tmp_path / "evaluations.csv"):
        own = {f"evaluation/{row['rival']}/{column}" for column in row if column not in WHEN}
        assert own <= set(board.scalars)
    assert set(read_columns(tmp_path / "evaluations.csv")) - WHEN <= {name.split("/")[-1] for name in board.scalars}


WHEN = {"iteration", "agent_steps", "seconds", "rival"}
"""Columns that a logger uses as step and in names."""


def test_report_shows_each_skill(tmp_path, monkeypatch):
    for module in (skills, eval_callback):
        monkeypatch.setattr(module, "pieces", lambda: ["cool_off", "jump_wall"])
    evaluation = dataclasses.replace(EVALUATION, pieces=2)
    trainer = Trainer(tiny_run(evaluation=evaluation), tmp_path, callbacks=[EvalCallback(), Report()])
    trainer.train()
    written = json.loads((tmp_path / skills.PROFILE).read_text())
    assert [len(piece["won"]) for piece in written["pieces"].values()] == [2, 2]
    found = told(tmp_path)["skills"]
    assert [row["piece"] for row in found] == ["cool_off", "jump_wall"]
    assert all(row["low"] <= row["win_rate"] == row["wins"] / 2 <= row["high"] for row in found)
    save(skills_figure(written), tmp_path / "skills.svg")
    picture = (tmp_path / "skills.svg").read_text()
    assert all(piece in picture for piece in written["pieces"])


def test_set_pieces_require_their_comm_dim(tmp_path):
    wide = tiny_run(evaluation=EvalConfig(pieces=1), env=dataclasses.replace(EnvConfig.small(), comm_dim=2))
    with pytest.raises(ConfigError, match=r"^EvalConfig.pieces must be 0 for battles whose comm_dim is not \d, got 1$"):
        Trainer(wide, tmp_path, callbacks=[EvalCallback()])


@pytest.mark.integrations
def test_videos_show_recorded_battles_of_every_evaluation(tmp_path):
    av = pytest.importorskip("av", exc_type=ImportError)
    evaluation = dataclasses.replace(EVALUATION, video=2)
    Trainer(tiny_run(evaluation=evaluation), tmp_path, callbacks=[EvalCallback(), BattleVideos()]).train()
    written = sorted(path.name for path in (tmp_path / "videos").iterdir())
    assert written == [f"iteration_{number:06}-{battle}.mp4" for number in (0, 2, 3) for battle in (1, 2)]
    replay = read_replay(tmp_path / "evaluation.echelon")
    assert len(replay.battles) == 2 and not (tmp_path / "videos" / "iteration_000003-3.mp4").exists()
    for number, battle in enumerate(replay.battles, 1):
        with av.open(str(tmp_path / "videos" / f"iteration_000003-{number}.mp4")) as container:
            count = sum(1 for _ in container.decode(video=0))
        length_s = battle.decisions * replay.about["decision_repeat"] * replay.about["dt_s"]
        assert count == math.ceil(length_s * 20 - 1e-9) + 1


def test_videos_without_pyav_are_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(report_callback, "find_spec", lambda name: None)
    evaluation = dataclasses.replace(EVALUATION, video=1)
    with pytest.raises(ConfigError, match=r"^--evaluation.video needs av, .*: pip install 'echelon-marl\[export\]'$"):
        Trainer(tiny_run(evaluation=evaluation), tmp_path, callbacks=[BattleVideos()])
    with pytest.raises(ConfigError, match=r"^EvalConfig.video must be at most battles \(2\), got 3$"):
        dataclasses.replace(EVALUATION, video=3)
    Trainer(tiny_run(), tmp_path, callbacks=[BattleVideos()])


def test_signal_ends_writing_of_videos(tmp_path, monkeypatch):
    """The interrupted run continues to its checkpoint; no line says that drawing failed."""
    lines = []

    def interrupted(work):
        with contextlib.suppress(Interrupted):
            work()
            lines.append("written")

    def writes(*_):
        raise Interrupted(2)

    run = SimpleNamespace(folder=tmp_path, run_interruptible=interrupted, log_plain=lines.append)
    videos = BattleVideos(1)
    monkeypatch.setattr(videos, "write", writes)
    videos.on_replay(run, SimpleNamespace(battles=[None]))
    assert lines == []
