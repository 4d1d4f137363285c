"""Metrics in TorchRL's loggers: a user's own logger, TensorBoard and Weights & Biases."""

import csv
import importlib.util
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import programs
import pytest
import torch
from tiny_runs import tiny_run
from torchrl.record.loggers import CSVLogger, get_logger

from echelon.arena.eval_callback import EvalCallback
from echelon.learn.callbacks.base import Callback
from echelon.learn.callbacks.loggers import LoggerCallback, run_logger, usual_callbacks
from echelon.learn.config import EvalConfig
from echelon.learn.metrics import CLOCKS, COMMON_NAMES, read_metrics, read_table
from echelon.learn.train_flags import read_config
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError

WANDB = '''
"""The part of the interface of Weights & Biases that TorchRL's logger and the strips use."""
class Config(dict):
    def update(self, values, **_): super().update(values)
class Image:
    def __init__(self, picture): self.picture = picture
class Run:
    def __init__(self, settings):
        self.settings, self.rows, self.steps, self.config, self.is_finished = settings, [], {}, Config(), False
    def define_metric(self, name, step_metric=None): self.steps[name] = step_metric
    def log(self, row, **_): self.rows.append(row)
    def finish(self): self.is_finished = True
def init(**settings): return Run(settings)
'''
FLAGS = ("--wandb.project", "mechs", "--wandb.name", "first", "--wandb.group", "seeds", "--wandb.tags", "lstm", "5v5")


def a_run(folder, **changes):
    """Return what a logger reads of a run."""
    return SimpleNamespace(
        config=tiny_run(**changes),
        folder=folder,
        counters=SimpleNamespace(agent_steps=160),
        ranks=SimpleNamespace(is_first=True),
    )


def points(folder, name):
    """Return step and value of each point that TorchRL's `CSVLogger` wrote."""
    with (folder / "scalars" / f"{name}.csv").open() as file:
        return [(int(step), float(value)) for step, value in csv.reader(file)]


def test_logger_receives_metrics_common_names_and_evaluations(tmp_path):
    evaluation = EvalConfig(every=1, battles=2, final_battles=2, tiers=("trivial",))
    logger = LoggerCallback(CSVLogger("logged", str(tmp_path)))
    Trainer(tiny_run(evaluation=evaluation), tmp_path / "run", callbacks=[EvalCallback(), logger]).train(2)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert len(rows) == 2
    for name in set().union(*rows) - set(CLOCKS):
        expected = [(int(row["agent_steps"]), row[name]) for row in rows if name in row]
        assert points(tmp_path / "logged", name) == expected, name
    for name, column in COMMON_NAMES.items():
        assert points(tmp_path / "logged", name) == points(tmp_path / "logged", column), name
    evaluations = [
        (int(row["agent_steps"]), float(row["win_rate"]))
        for row in read_table(tmp_path / "run" / "evaluations.csv")
        if row["rival"] == "heuristic:trivial"
    ]
    assert points(tmp_path / "logged", "evaluation/heuristic:trivial/win_rate") == evaluations


def test_logger_of_a_function_is_opened_for_each_training_and_closed(tmp_path):
    opened = []

    def in_run_folder(run):
        opened.append(get_logger("csv", str(run.folder), f"logged {len(opened)}"))
        return opened[-1]

    trainer = Trainer(tiny_run(), tmp_path, callbacks=[LoggerCallback(in_run_folder)])
    assert opened == [], "a run that is refused opens no logger"
    trainer.train(1)
    trainer.train(1)
    assert [logger.is_alive for logger in opened] == [False, False]
    assert [step for step, _ in points(tmp_path / "logged 1", "kl")] == [320]


def test_logger_of_the_caller_stays_open(tmp_path):
    logger = CSVLogger("logged", str(tmp_path))
    Trainer(tiny_run(), tmp_path / "run", callbacks=[LoggerCallback(logger)]).train(1)
    assert logger.is_alive


def test_wrong_logger_and_equal_names_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^logger must be a Logger of torchrl.record.loggers, got 'mlflow'$"):
        LoggerCallback("mlflow")
    two = [LoggerCallback(CSVLogger(name, str(tmp_path))) for name in "ab"]
    with pytest.raises(ConfigError, match="callbacks must be unique names"):
        Trainer(tiny_run(), tmp_path / "run", callbacks=two)


@pytest.mark.parametrize("wrong", ["much", True, torch.tensor(1.0)])
def test_non_number_metric_raises_before_writing(tmp_path, wrong):
    class Wrong(Callback):
        def on_iteration_end(self, trainer, metrics):
            metrics["mine"] = wrong

    trainer = Trainer(tiny_run(), tmp_path, callbacks=[Wrong()])
    with pytest.raises(ConfigError, match=r"metrics\['mine'\] must be a number or None"):
        trainer.train(1)
    assert read_table(tmp_path / "metrics.csv") == []


@pytest.mark.requirement("R49")
def test_tensorboard_logger_writes_events(tmp_path):
    pytest.importorskip("tensorboard")
    trainer = Trainer(tiny_run(logger="tensorboard"), tmp_path)
    trainer.train(1)
    assert list((tmp_path / "tensorboard").rglob("events*"))


def test_tensorboard_hides_points_of_killed_process(tmp_path):
    """TensorBoard shows the resumed run's points instead of the killed process's."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = a_run(tmp_path, logger="tensorboard")
    for value, (done, last) in ((1.0, (0, 3)), (2.0, (1, 4))):
        callback = LoggerCallback(run_logger)
        for iteration in range(done + 1, last + 1):
            run.counters.agent_steps = 160 * done
            callback._open(run)
            run.counters.agent_steps = 160 * iteration
            callback.on_iteration_end(run, {"kl": value, "agent_steps": 160.0 * iteration})
        callback.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    for name in ("kl", "losses/approx_kl"):
        points = [(event.step, event.value) for event in events.Scalars(name)]
        assert points == [(160, 1.0), (320, 2.0), (480, 2.0), (640, 2.0)]


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    """A module in place of Weights & Biases, which needs an account or a server."""
    path = tmp_path / "wandb.py"
    path.write_text(WANDB)
    spec = importlib.util.spec_from_file_location("wandb", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr("torchrl.record.loggers.wandb._has_wandb", True)
    return module


@pytest.mark.requirement("R49")
def test_wandb_flags_name_project_run_group_and_tags(tmp_path, wandb):
    config = read_config(["--preset", "quick", "--logger", "wandb", *FLAGS])
    run = a_run(tmp_path / "runs" / "seed-1", logger="wandb", wandb=config.wandb)
    (callback,) = (each for each in usual_callbacks(run.config, []) if isinstance(each, LoggerCallback))
    callback.on_iteration_end(run, {"agent_steps": 160.0, "kl": 0.5})
    callback.log_image(run, "evaluation/battle", np.zeros((2, 3, 3), np.uint8))
    of_wandb = callback.logger.experiment
    asked = {key: of_wandb.settings[key] for key in ("project", "name", "group", "tags", "dir")}
    expected = {"project": "mechs", "name": "first", "group": "seeds", "tags": ("lstm", "5v5")}
    assert asked == {**expected, "dir": str(run.folder)}
    metrics, picture = of_wandb.rows
    assert metrics == {"kl": 0.5, "step": 160, "losses/approx_kl": 0.5, "losses/step": 160}
    assert of_wandb.steps["losses/approx_kl"] == "losses/step"
    assert picture["evaluation/step"] == 160 and picture["evaluation/battle"].picture.shape == (2, 3, 3)
    callback.close()
    assert of_wandb.is_finished


def test_wandb_run_has_the_name_of_the_run_folder_by_default(tmp_path, wandb):
    settings = run_logger(a_run(tmp_path / "seed-1", logger="wandb")).experiment.settings
    assert [settings[key] for key in ("project", "name", "group", "tags")] == ["echelon", "seed-1", None, ()]


def test_resumed_run_continues_its_wandb_run(tmp_path, wandb):
    first, again, other = (
        run_logger(a_run(tmp_path / name, logger="wandb")).experiment.settings for name in ("a", "a", "b")
    )
    assert first["id"] == again["id"] != other["id"] and len(first["id"]) == 8
    assert {each["resume"] for each in (first, again, other)} == {"allow"}


def test_offline_wandb_stores_the_run(tmp_path, monkeypatch):
    """The package itself, where it is installed."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = read_config(["--preset", "quick", "--logger", "wandb", *FLAGS])
    callback = LoggerCallback(run_logger)
    run = a_run(tmp_path, logger="wandb", wandb=config.wandb)
    callback.on_iteration_end(run, {"agent_steps": 160.0, "kl": 0.5})
    callback.log_image(run, "evaluation/battle", np.zeros((2, 3, 3), np.uint8))
    stored = callback.logger.experiment
    assert (stored.project, stored.name, stored.group, stored.tags) == ("mechs", "first", "seeds", ("lstm", "5v5"))
    assert stored.summary["losses/approx_kl"] == 0.5 and stored.summary["step"] == 160
    callback.close()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_mlflow_stores_metrics(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    address = f"sqlite:///{tmp_path}/runs.db"
    from torchrl.record.loggers import MLFlowLogger

    callback = LoggerCallback(lambda run: MLFlowLogger("mechs", address, artifact_location=str(tmp_path)))
    Trainer(tiny_run(), tmp_path / "run", callbacks=[callback]).train(2)
    mlflow.end_run()  # TorchRL's logger leaves this to the end of the process
    client = mlflow.tracking.MlflowClient(address)
    (stored,) = client.search_runs([client.get_experiment_by_name("mechs").experiment_id])
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    history = client.get_metric_history(stored.info.run_id, "losses/approx_kl")
    assert [(each.step, each.value) for each in history] == [(160 * (i + 1), row["kl"]) for i, row in enumerate(rows)]


@pytest.mark.requirement("R49")
def test_wandb_and_tensorboard_are_imported_only_when_selected(tmp_path):
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(programs.ROOT / "tests")!r})
from tiny_runs import tiny_run
from echelon.learn.trainer import Trainer
Trainer(tiny_run(), Path({str(tmp_path)!r}))
assert not {{"wandb", "tensorboard"}} & set(sys.modules)
"""
    done = programs.run("-c", program)
    assert done.returncode == 0, done.stderr
    if find_spec("wandb") is None:
        with pytest.raises(ConfigError, match=r"--logger must be csv, or installed .*, got 'wandb'"):
            Trainer(tiny_run(logger="wandb"), tmp_path / "wandb")
