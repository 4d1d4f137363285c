"""`benchmarks/ship.py` evaluates a policy and adds it to the package; `benchmarks/rate.py` rates shipped policies."""

import dataclasses
import importlib
import itertools
import json
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from leagues import checkpoint_of

import echelon
from echelon.agents.tiers import TIERS
from echelon.arena.resolve import named_checkpoint
from echelon.env.tasks.task import Protocol, Task, latest, tasks
from echelon.league.store import Store
from echelon.learn.checkpoint import shipped
from echelon.learn.checkpoint.format import POLICY
from echelon.learn.checkpoint.provenance import provenance_of
from echelon.pipelines.arena_args import ArenaArgs
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
def rate(ship):
    """The module."""
    return importlib.import_module("rate")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package without policies, and a task with short battles."""
    (tmp_path / shipped.TABLE).write_text("[]")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr("echelon.env.tasks.task._REGISTERED", {})
    echelon.register_task(Task("tests/brief-v1", "brief", BRIEF, *current_versions(), protocol=PROTOCOL))
    return tmp_path


def test_policy_is_evaluated_and_named(ship, package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in ((1, "one"), (2, "other")):
        path = checkpoint_of(folder, seed, env=BRIEF, provenance=provenance_of(BRIEF, ["self"]))
        args = ship.Args(str(path), name, "draws straws", "echelon-train", "abc", battles=2, device="cpu")
        row, checkpoint = ship.ship(args), named_checkpoint(f"trained:{name}")
        assert (row.task, row.agent_steps, row.commit) == ("tests/brief-v1", seed, "abc")
        assert row.win_rates.keys() == set(PROTOCOL.opponents) and row.battles == 2
        assert (package / name / POLICY).read_bytes() == (path / POLICY).read_bytes(), "weights keep their hash"
        assert checkpoint.provenance == provenance_of(BRIEF, ["self"])
    assert {path.name for path in package.iterdir()} == {shipped.TABLE, "one", "other"}
    rates = [policy.win_rate for policy in echelon.trained().values()]
    assert len(rates) == 2 and rates == sorted(rates, reverse=True)
    with pytest.raises(ConfigError, match=r"^--name must be none of .*, got 'one'$"):
        ship.ship(args.__class__(str(path), "one", "", ""))


def test_half_precision_critic_leaves_the_actor_unchanged(ship, package, tmp_path_factory):
    path = checkpoint_of(tmp_path_factory.mktemp("runs"), 1, env=BRIEF, provenance=provenance_of(BRIEF, ["self"]))
    ship.ship(ship.Args(str(path), "half", "small", "echelon-train", "abc", battles=2, device="cpu", half_critic=True))
    whole, half = (echelon.load_policy(name, "cpu").state_dict() for name in (path, "trained:half"))
    for name, values in half.items():
        rounded = whole[name].bfloat16().float() if name.startswith("critic.") else whole[name]
        assert values.dtype == torch.float32 and values.equal(rounded), name
    assert (package / "half" / POLICY).stat().st_size < (path / POLICY).stat().st_size


@pytest.mark.long
def test_shipped_policies_except_strangers_are_rated(ship, rate, package, tmp_path_factory, monkeypatch, capsys):
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in ((1, "one"), (2, "other"), (3, "stranger")):
        path = checkpoint_of(folder, seed, env=BRIEF, provenance=provenance_of(BRIEF, ["self"]))
        ship.ship(ship.Args(str(path), name, "draws straws", "echelon-train", "abc", battles=2, device="cpu"))
    monkeypatch.setattr(rate, "held_out", lambda name: name == "trained:stranger")
    args = rate.Args("tests/brief-v1", tmp_path_factory.mktemp("leagues") / "brief", seeds=2, arena=ArenaArgs("cpu"))
    ratings = rate.rate(args)
    tiers = {f"heuristic:{tier}" for tier in TIERS}
    assert ratings.keys() == {"trained:one", "trained:other", *tiers} and sum(ratings.values()) == pytest.approx(
        7 * 1500, abs=1
    )
    rows = echelon.trained()
    assert {name: row.rating for name, row in rows.items()} == {
        "one": ratings["trained:one"],
        "other": ratings["trained:other"],
        "stranger": None,
    }
    rated = [row.rating for row in rows.values()]
    assert rated[2] is None and rated[0] >= rated[1], "the best stands first, who is not rated last"
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["name"] for row in printed[:-1]} == set(ratings) and {row["games"] for row in printed[:-1]} == {24}
    assert all(row["points"].keys() == set(ratings) - {row["name"]} for row in printed[:-1])

    monkeypatch.setattr(rate, "tournament", None)
    assert rate.rate(args) == ratings, "a tournament that has ended is not played again"
    path = checkpoint_of(folder, 5, env=BRIEF, provenance=provenance_of(BRIEF, ["self"]))
    ship.ship(ship.Args(str(path), "new", "draws straws", "echelon-train", "abc", battles=2, device="cpu"))
    assert rate.rate(args).keys() == {"trained:new", *ratings}
    with closing(Store(args.league)) as store:
        assert {standing.name: standing.games for standing in store.standings()} == {
            entry.name: 28 for entry in store.entries()
        }, "as many as if it had been there from the beginning"
    with closing(Store(args.league)) as store:
        store.add(checkpoint_of(folder, 4, env=BRIEF))
    with pytest.raises(ConfigError, match="--league must be one of the tiers and of policies that ship alone, got "):
        rate.rate(args)
    with pytest.raises(ConfigError, match="--task must be a task that policies ship for, got 'small-5v5-v1'"):
        rate.rate(dataclasses.replace(args, task="small-5v5-v1"))


@pytest.mark.long
@pytest.mark.parametrize("task", sorted({row.task for row in echelon.trained().values()}))
def test_smaller_tournament_gives_the_order_of_ratings(rate, tmp_path, monkeypatch, task):
    """Pairs that differ by 200, more than three standard deviations of so few battles."""
    rated = {f"trained:{name}": row.rating for name, row in echelon.trained().items() if row.task == task}
    rated = {name: rating for name, rating in rated.items() if rating is not None}
    monkeypatch.setattr(rate, "write_table", lambda rows: None)
    ratings = rate.rate(rate.Args(task, tmp_path / "league", seeds=4, arena=ArenaArgs("cpu")))
    assert {name for name in ratings if name.startswith("trained:")} == rated.keys()
    for better, worse in itertools.permutations(rated, 2):
        assert rated[better] - rated[worse] < 200 or ratings[better] > ratings[worse], (better, worse)
    assert min(ratings, key=ratings.__getitem__) in ("heuristic:trivial", "heuristic:easy")


def test_invalid_policy_is_refused_before_evaluation(ship, package, tmp_path_factory, monkeypatch):
    path = checkpoint_of(tmp_path_factory.mktemp("runs"), 1, env=dataclasses.replace(BRIEF, blue=("light",)))
    with pytest.raises(FileError, match=r"^--name must be lower-case letters, digits and hyphens, got 'My Policy'$"):
        ship.ship(ship.Args(str(path), "My Policy", "", ""))
    with pytest.raises(ConfigError, match=r"^--task must be set, because no task has the battles of this policy"):
        ship.ship(ship.Args(str(path), "mine", "", "", battles=2))
    monkeypatch.setattr(ship, "MOST_BYTES", 100)
    with pytest.raises(ConfigError, match=r"must be less than the 98 bytes that are left, got "):
        ship.ship(ship.Args(str(path), "mine", "", "", task="tests/brief-v1"))
    assert [entry.name for entry in package.iterdir()] == [shipped.TABLE]


def test_task_of_a_config_is_found(ship):
    assert ship.task_of(EnvConfig.small()) == latest("small-5v5") in tasks()
