"""How runs end and resume: no data is lost, no process remains, and errors are one line."""

import contextlib
import dataclasses
import logging
import socket
from pathlib import Path

import pytest
from programs import Program
from tiny_runs import evaluated_run, tiny_run

from echelon.arena.eval_callback import EvalCallback
from echelon.arena.evaluator import Evaluator
from echelon.learn.callbacks import loggers
from echelon.learn.callbacks.base import ELSEWHERE, Callback, Interrupted, load_callbacks
from echelon.learn.callbacks.loggers import MetricsLogger, Profiler
from echelon.learn.callbacks.progress import ProgressBar
from echelon.learn.checkpoint.files import checkpoints_in, newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import EvalConfig
from echelon.learn.curriculum import Curriculum
from echelon.learn.metrics import read_table
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError
from echelon.runtime.tensor_files import StateDict

HERE = Path(__file__).parent
EVALUATION = EvalConfig(every=1, battles=2, final_battles=2, tiers=("trivial",))


def kept(folder: Path) -> list[int]:
    """Return the iterations of a run's checkpoints."""
    return [int(path.name[-6:]) for path in checkpoints_in(folder / "checkpoints")]


class StopsInNewStage(Callback):
    def on_stage(self, trainer):
        trainer.stop()


def test_stop_in_new_stage_saves_checkpoint(tmp_path, monkeypatch):
    def advance(curriculum: Curriculum, battles: float, won: float) -> bool:
        curriculum.stages.append(curriculum.stages[-1])
        curriculum.state = type(curriculum.state)(stage=curriculum.state.stage + 1)
        curriculum.stages[-1] = type(curriculum.stage)(**{**vars(curriculum.stage), "number": curriculum.state.stage})
        return True

    monkeypatch.setattr(Curriculum, "record", advance)
    Trainer(tiny_run(checkpoint_every=10), tmp_path, callbacks=[StopsInNewStage()]).train()
    assert kept(tmp_path) == [0, 1]


def test_train_with_iterations_saves_and_continues(tmp_path, caplog):
    trainer = Trainer(tiny_run(checkpoint_every=10), tmp_path, callbacks=[ProgressBar()])
    for done in (1, 2):
        trainer.train(1)
        assert kept(tmp_path) == list(range(done + 1)) and len(read_table(tmp_path / "metrics.csv")) == done


class Stateful(Callback):
    name = "mine"

    def __init__(self, name: str = "mine", fact: object = 1.0) -> None:
        self.name, self.fact = name, fact

    def state_dict(self):
        return StateDict(facts={"fact": self.fact})


@pytest.mark.parametrize("name", ["ppo", "battles", "past", "my.own"])
def test_duplicate_callback_name_raises(tmp_path, name):
    with pytest.raises(ConfigError, match=rf"Callback.name must be an identifier not in .*, got '{name}'"):
        Trainer(tiny_run(), tmp_path, callbacks=[Stateful(name)])


@pytest.mark.parametrize("fact", [float("-inf"), Path()])
def test_invalid_callback_state_raises(tmp_path, fact):
    with pytest.raises(ConfigError, match="mine: facts of a state must be JSON of finite numbers, got"):
        Trainer(tiny_run(), tmp_path, callbacks=[Stateful(fact=fact)]).train()


def test_run_without_evaluations_keeps_earlier_rows(tmp_path):
    for iterations, callbacks in ((1, [EvalCallback()]), (2, []), (3, [EvalCallback()])):
        config = evaluated_run(evaluation=EVALUATION, total_agent_steps=160 * iterations)
        start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints")) if iterations > 1 else None
        Trainer(config, tmp_path, start, callbacks=callbacks).train()
    rows = [row for row in read_table(tmp_path / "evaluations.csv") if row["rival"] != "best"]
    assert [row["iteration"] for row in rows] == ["0", "1", "2", "3"]


def test_final_evaluation_stays_after_resume(tmp_path):
    """The evaluation is later than the last checkpoint, and no further evaluation is due then."""
    evaluation = dataclasses.replace(EVALUATION, every=0)
    for iterations in (1, 3):
        config = evaluated_run(evaluation=evaluation, total_agent_steps=160 * iterations)
        start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints")) if iterations > 1 else None
        Trainer(config, tmp_path, start, callbacks=[EvalCallback()]).train()
    assert list(dict.fromkeys(row["iteration"] for row in read_table(tmp_path / "evaluations.csv"))) == ["0", "1", "3"]


class SignalledInEvaluation(Callback):
    def setup(self, trainer):
        trainer.pending_signal = lambda: 15 if trainer.counters.iterations == 2 else 0
        trainer.run_interruptible = lambda work: None if trainer.counters.iterations == 2 else work()


def test_repeated_evaluation_logs_best_policy(tmp_path, monkeypatch, caplog):
    config = evaluated_run(evaluation=EVALUATION, checkpoint_every=10, total_agent_steps=160 * 4)
    with pytest.raises(Interrupted):
        Trainer(config, tmp_path, callbacks=[SignalledInEvaluation(), EvalCallback()]).train()
    monkeypatch.setattr(Evaluator, "update_best", lambda self, scores, now: better(self, now))
    caplog.set_level(logging.INFO, "echelon")
    caplog.clear()
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    Trainer(config, tmp_path, start, callbacks=[EvalCallback()]).train()
    named = [record.getMessage()[-6:] for record in caplog.records if "best so far" in record.getMessage()]
    assert named == ["000002", "000003"] and 3 in kept(tmp_path)


def better(evaluator: Evaluator, now: int) -> bool:
    evaluator.last_iteration = evaluator.best_iteration = now
    return True


class FailsIn(Callback):
    def __init__(self, where: str) -> None:
        setattr(self, where, self.fail)

    def fail(self, *_: object) -> None:
        raise ZeroDivisionError("of a stranger's")


class Closed(Callback):
    closed = False

    def close(self):
        self.closed = True


@pytest.mark.parametrize("where", ["setup", "on_checkpoint", "on_iteration_start", "on_run_end"])
def test_an_error_closes_every_callback(tmp_path, where):
    before, behind = Closed(), type("Behind", (Closed,), {})()
    # Errors before the run become one line.
    with pytest.raises(ConfigError if where == "setup" else ZeroDivisionError, match="of a stranger's"):
        Trainer(tiny_run(), tmp_path, callbacks=[before, FailsIn(where), behind]).train()
    assert before.closed and behind.closed


def test_profiler_traces_exactly_one_iteration(tmp_path, monkeypatch, caplog):
    told: list[str] = []

    @contextlib.contextmanager
    def profiled(path):
        told.append("begin")
        yield
        told.append("end")

    class Diary(Callback):
        def on_evaluation(self, trainer, scores):
            told.append(f"evaluation {trainer.counters.iterations}")

        def on_checkpoint(self, trainer, path):
            told.append(path.name)

    monkeypatch.setattr(loggers, "profiled", profiled)
    config = evaluated_run(evaluation=EVALUATION, total_agent_steps=160 * 4)
    Trainer(config, tmp_path / "long", callbacks=[Profiler(tmp_path / "trace"), EvalCallback(), Diary()]).train()
    at = told.index("begin")
    assert told[at - 1 : at + 3] == ["iteration_000002", "begin", "end", "evaluation 3"] and told.count("begin") == 1
    caplog.set_level(logging.INFO, "echelon")
    Trainer(tiny_run(), tmp_path / "short", callbacks=[Profiler(tmp_path / "trace")]).train(1)
    assert "no profile in" in caplog.text


class OwnLogger(MetricsLogger):
    def on_iteration_end(self, trainer, metrics):
        super().on_iteration_end(trainer, {**metrics, "mine": 1.0})


def test_custom_logger_replaces_metrics_logger(tmp_path):
    Trainer(tiny_run(), tmp_path, callbacks=[OwnLogger()]).train(1)
    assert [row["mine"] for row in read_table(tmp_path / "metrics.csv")] == ["1.0"]


def test_callback_with_arguments_raises_one_line(tmp_path, monkeypatch):
    (tmp_path / "demanding.py").write_text("class Needy:\n    def __init__(self, much): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigError, match="--callbacks demanding:Needy must be callable without arguments, got TypeError"
    ):
        load_callbacks(["demanding:Needy"])


@pytest.mark.long
def test_two_processes_share_stop_and_league_error(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"PYTHONPATH": str(HERE.parents[1]), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared["WORLD_SIZE"] = "2"
    words = (str(HERE / "two_processes.py"), str(tmp_path / "run"))
    both = [Program(*words, RANK=rank, LOCAL_RANK=rank, **shared) for rank in ("0", "1")]
    said, told = zip(*(process.communicate() for process in both), strict=True)
    assert [process.returncode for process in both] == [0, 0], "\n".join(told)
    assert [lines.split("\n") for lines in said] == [["2", "the league is full", ""], ["2", ELSEWHERE, ""]]
