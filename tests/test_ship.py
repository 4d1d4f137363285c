"""`benchmarks/ship.py`: a policy is judged and put into the package, without its learner's state."""

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest
from leagues import checkpoint_of

import echelon
from echelon.arena.resolve import named_checkpoint
from echelon.env.tasks.task import Protocol, Task, latest, tasks
from echelon.learn.checkpoint import shipped
from echelon.learn.checkpoint.format import POLICY
from echelon.learn.checkpoint.provenance import met_in
from echelon.rules.config import EnvConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")
BRIEF = dataclasses.replace(EnvConfig.small(), map_pool=1, rules=echelon.RulesConfig(max_episode_s=2.0))
PROTOCOL = Protocol(("heuristic:trivial", "heuristic:easy"), battles=2)


@pytest.fixture(scope="module")
def ship():
    """The module."""
    sys.path.insert(0, BENCHMARKS)
    yield importlib.import_module("ship")
    sys.path.remove(BENCHMARKS)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package without policies, and a task of brief battles."""
    (tmp_path / shipped.TABLE).write_text("[]")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr("echelon.env.tasks.task._REGISTERED", {})
    echelon.register_task(Task("tests/brief-v1", "brief", BRIEF, *current_versions(), protocol=PROTOCOL))
    return tmp_path


def test_a_policy_is_judged_and_named(ship, package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in ((1, "one"), (2, "other")):
        path = checkpoint_of(folder, seed, env=BRIEF, provenance=met_in(BRIEF, ["self"]))
        args = ship.Args(str(path), name, "draws straws", "echelon-train", "abc", battles=2, device="cpu")
        row, found = ship.ship(args), named_checkpoint(f"trained:{name}")
        assert (row.task, row.agent_steps, row.commit) == ("tests/brief-v1", seed, "abc")
        assert row.win_rates.keys() == set(PROTOCOL.opponents) and row.battles == 2
        assert (package / name / POLICY).read_bytes() == (path / POLICY).read_bytes(), "weights keep their hash"
        assert found.provenance == met_in(BRIEF, ["self"])
    assert {path.name for path in package.iterdir()} == {shipped.TABLE, "one", "other"}
    rates = [policy.win_rate for policy in echelon.trained().values()]
    assert len(rates) == 2 and rates == sorted(rates, reverse=True)
    with pytest.raises(ConfigError, match=r"^--name must be none of .*, got 'one'$"):
        ship.ship(args.__class__(str(path), "one", "", ""))


def test_what_cannot_be_shipped_is_refused_before_it_is_judged(ship, package, tmp_path_factory, monkeypatch):
    path = checkpoint_of(tmp_path_factory.mktemp("runs"), 1, env=dataclasses.replace(BRIEF, blue=("light",)))
    with pytest.raises(FileError, match=r"^--name must be lower-case letters, digits and hyphens, got 'My Policy'$"):
        ship.ship(ship.Args(str(path), "My Policy", "", ""))
    with pytest.raises(ConfigError, match=r"^--task must be given: these are the battles of no task"):
        ship.ship(ship.Args(str(path), "mine", "", "", battles=2))
    monkeypatch.setattr(ship, "MOST_BYTES", 100)
    with pytest.raises(ConfigError, match=r"must be less than the 98 bytes that are left, got "):
        ship.ship(ship.Args(str(path), "mine", "", "", task="tests/brief-v1"))
    assert [entry.name for entry in package.iterdir()] == [shipped.TABLE]


def test_the_task_of_battles_is_found(ship):
    assert ship.task_of(EnvConfig.small()) == latest("small-5v5") in tasks()
