"""Callbacks of a run: built-in and custom ones."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from tiny_runs import evaluated_run, tiny_run

from echelon.arena.eval_callback import EvalCallback
from echelon.learn.callbacks.base import Callback, Interrupted, load_callbacks
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.checkpoint.files import checkpoints_in, newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.metrics import MEASURED, read_columns, read_metrics, read_table
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "tests" / "examples"


class Diary(Callback):
    """Records all calls."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def setup(self, trainer):
        self.told.append("setup")

    def on_run_start(self, trainer):
        self.told.append("start")

    def on_iteration_end(self, trainer, metrics):
        metrics["twice"] = 2 * metrics["iteration"]
        self.told.append(trainer.counters.iterations)

    def on_evaluation(self, trainer, scores):
        self.told.append([score.rival for score in scores])

    def on_checkpoint(self, trainer, path):
        self.told.append(path.name)

    def on_run_end(self, trainer):
        self.told.append("end")

    def close(self):
        self.told.append("closed")


def numbers(folder: Path, name: str) -> list[dict[str, str]]:
    """Read a table of a run without its wall-clock columns."""
    return [{key: value for key, value in row.items() if key not in MEASURED} for row in read_table(folder / name)]


def test_callback_methods_are_called_in_order(tmp_path):
    diary = Diary()
    evaluation = EvalConfig(every=2, battles=2, final_battles=2, tiers=("trivial",))
    Trainer(evaluated_run(evaluation=evaluation), tmp_path, callbacks=[EvalCallback(), diary]).train()
    names = ["heuristic:trivial", "best"]
    assert diary.told == [
        *("setup", "iteration_000000", ["heuristic:trivial"], "start"),
        *(1, names, 2, "iteration_000002", 3, "iteration_000003", names, "end", "closed"),
    ]
    assert [row["twice"] for row in read_metrics(tmp_path / "metrics.csv")] == [2, 4, 6]
    assert read_columns(tmp_path / "metrics.csv")[-1] == "twice", "after the built-in columns"


def test_callbacks_do_not_change_the_run(tmp_path):
    evaluation = EvalConfig(every=1, battles=2, final_battles=2, tiers=("trivial",))
    config = evaluated_run(evaluation=evaluation, total_agent_steps=320)
    Trainer(config, tmp_path / "plain").train()
    Trainer(config, tmp_path / "rich", callbacks=[EvalCallback(), Diary()]).train()
    rich = [{k: v for k, v in row.items() if k != "twice"} for row in numbers(tmp_path / "rich", "metrics.csv")]
    assert rich == numbers(tmp_path / "plain", "metrics.csv")


def test_script_in_training_guide_equals_program(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "TRAINING.md").read_text(), re.DOTALL)
    (script,) = [block for block in blocks if "StopWhenGood" in block]
    assert len([line for line in script.splitlines() if line]) <= 15
    assert "total_agent_steps=200_000" in script
    script = script.replace("200_000", "320")
    evaluation = EvalConfig(every=0, battles=2, final_battles=2, tiers=("trivial",))
    config = evaluated_run(evaluation=evaluation, total_agent_steps=320)
    monkeypatch.setattr(TrainConfig, "quick", lambda: config)
    monkeypatch.chdir(tmp_path)
    exec(script, {"__name__": "script"})
    flags = ["--preset", "quick", "--run-dir", str(tmp_path / "runs" / "theirs")]
    monkeypatch.setitem(__import__("echelon.learn.config").learn.config.TRAIN_PRESETS, "quick", TrainConfig.quick)
    monkeypatch.setattr(sys, "argv", ["train.py", *flags])
    from echelon.pipelines import train

    train.main()
    ours, theirs = tmp_path / "runs" / "scripted", tmp_path / "runs" / "theirs"
    own = [{k: v for k, v in row.items() if k != "lead"} for row in numbers(ours, "metrics.csv")]
    assert len(own) == 2 and own == numbers(theirs, "metrics.csv")
    assert numbers(ours, "evaluations.csv") == numbers(theirs, "evaluations.csv")
    files = [open_checkpoint(newest_checkpoint(run / "checkpoints")).metadata["files"] for run in (ours, theirs)]
    assert files[0] == files[1]


def test_callback_state_resumes_and_callback_can_stop_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import early_stop

    monkeypatch.setattr(early_stop.EarlyStop, "PATIENCE", 10**9)
    config = tiny_run(total_agent_steps=160 * 3, checkpoint_every=1)
    Trainer(config, tmp_path / "whole", callbacks=load_callbacks(["early_stop:EarlyStop"])).train()
    start = open_checkpoint(tmp_path / "whole" / "checkpoints" / "iteration_000002")
    Trainer(config, tmp_path / "rest", start, callbacks=load_callbacks(["early_stop:EarlyStop"])).train()
    assert numbers(tmp_path / "rest", "metrics.csv") == numbers(tmp_path / "whole", "metrics.csv")[2:]
    monkeypatch.setattr(early_stop.EarlyStop, "PATIENCE", 0)
    trainer = Trainer(config, tmp_path / "early", callbacks=load_callbacks(["early_stop:EarlyStop"]))
    trainer.train()
    assert trainer.counters.iterations == 1 and not trainer.finished
    assert newest_checkpoint(tmp_path / "early" / "checkpoints").name == "iteration_000001"


class Faulty(Callback):
    def on_iteration_end(self, trainer, metrics):
        if trainer.counters.iterations == 2:
            raise ZeroDivisionError("of a stranger's")


class Signalled(Callback):
    def setup(self, trainer):
        trainer.pending_signal = lambda: 15 if trainer.counters.iterations == 1 else 0


@pytest.mark.parametrize(("kind", "error", "done"), [(Faulty, ZeroDivisionError, 2), (Signalled, Interrupted, 1)])
def test_error_or_signal_saves_the_run(tmp_path, kind, error, done):
    diary = Diary()
    with pytest.raises(error):
        Trainer(tiny_run(checkpoint_every=10), tmp_path, callbacks=[kind(), diary]).train()
    assert diary.told[-1] == "closed" and "end" not in diary.told
    assert len(read_table(tmp_path / "metrics.csv")) == done, "the row was written"
    start = open_checkpoint(checkpoints_in(tmp_path / "checkpoints")[-1])
    assert start.counters.iterations == done
    again = Trainer(tiny_run(), tmp_path, start)
    again.train()
    assert again.resume_note == "" and len(read_table(tmp_path / "metrics.csv")) == 3


def test_invalid_callback_raises_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"callbacks must be unique names \(see Callback.name\)"):
        Trainer(tiny_run(), tmp_path, callbacks=[Diary(), Diary()])
    with pytest.raises(ConfigError, match=r"--callbacks pathlib:Path must be a subclass of .*Callback, got"):
        load_callbacks(["pathlib:Path"])
    with pytest.raises(FileError, match="nowhere:Callback: no module nowhere"):
        load_callbacks(["nowhere:Callback"])


class Killer(Callback):
    def on_iteration_end(self, trainer, metrics):
        os.kill(os.getpid(), signal.SIGTERM)


def test_signal_handler_works_in_a_script(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted):
        Trainer(tiny_run(), tmp_path, callbacks=[SignalHandler(), Killer()]).train()
    assert signal.getsignal(signal.SIGTERM) is before
    assert newest_checkpoint(tmp_path / "checkpoints").name == "iteration_000001"
