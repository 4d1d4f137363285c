"""Shipped policies: the table matches the files, and each policy plays."""

import dataclasses
import importlib
import json
import math
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import echelon
from echelon.agents.populations import held_out
from echelon.arena.resolve import load_policy, resolve
from echelon.env.tasks.task import TIERS, tasks
from echelon.league.store import Store
from echelon.learn.checkpoint import shipped
from echelon.learn.checkpoint.files import inspect_checkpoint
from echelon.learn.checkpoint.format import LEARNER, METADATA, POLICY
from echelon.learn.checkpoint.provenance import weight_bytes
from echelon.learn.checkpoint.shipped import FOLDER, MOST_BYTES, TABLE, shipped_checkpoint, trained
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

ROOT = Path(__file__).parents[3]
NAMES = list(trained())


def test_table_lists_exactly_the_policy_folders():
    assert NAMES and {path.name for path in FOLDER.iterdir()} == {TABLE, *NAMES}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= MOST_BYTES
    assert echelon.trained() == trained() and echelon.TrainedPolicy is type(trained()[NAMES[0]])


@pytest.mark.parametrize("name", NAMES)
def test_table_matches_checkpoints(name):
    row, found = trained()[name], shipped_checkpoint(name)
    assert inspect_checkpoint(found.path).is_valid
    assert (row.agent_steps, row.rules_version) == (found.counters.agent_steps, found.versions.rules)
    assert row.name == name and row.about and row.command and row.commit
    assert row.win_rates.keys() == set(tasks()[row.task].protocol.opponents) and row.battles >= 2
    assert found.tensors(LEARNER) == {} and found.metadata["settings"] == {} and found.metadata["processes"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_win_rates_do_not_rise_with_tier(name):
    """Allow three standard deviations of the difference, because many pairs are compared."""
    rates = [trained()[name].win_rates[tier] for tier in TIERS if tier in trained()[name].win_rates]
    wrong_by = 3 * math.sqrt(2 * 0.25 / trained()[name].battles)
    assert all(0 <= harder <= easier + wrong_by for easier, harder in pairwise(rates))


def test_policies_are_sorted_by_rating_within_task():
    for one, other in pairwise(trained().values()):
        assert one.task <= other.task
        if one.task == other.task and None not in (one.rating, other.rating):
            assert one.rating >= other.rating
        elif one.task == other.task:
            assert other.rating is None and (one.rating is not None or one.win_rate >= other.win_rate)
    for name, row in trained().items():
        assert row.rating is None or not held_out(f"trained:{name}")


@pytest.mark.parametrize("name", NAMES)
def test_shipped_policies_work_as_commanders(name):
    commander = resolve(f"trained:{name}")
    brief = dataclasses.replace(commander.env, map_pool=1)
    assert commander.id == trained()[name].sha256
    view = echelon.versus(brief, f"trained:{name}", 2, "cpu", 0)
    assert "ActorCritic" in repr(view)
    before = view.env.state.mechs.pos.clone()
    view.rollout(4, policy=lambda td: td.set(("agents", "action"), torch.zeros(2, len(brief.blue), 26)))
    walked = (view.env.state.mechs.pos - before)[..., :2].norm(dim=-1) > 0.5
    assert walked[0, len(brief.blue) :].any() and walked[1, : len(brief.blue)].any()  # its team: red, then blue


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_shipped_policies_reach_table_win_rates(name):
    """Network outputs repeat only on one kind of processor; elsewhere only win rates are comparable."""
    row = trained()[name]
    found = echelon.evaluate(f"trained:{name}", row.task, battles=row.battles, device="cpu")
    for told in found.rows():
        assert told["win_rate"] == pytest.approx(row.win_rates[told["opponent"]], abs=0.1)


def test_league_adds_shipped_policy_by_name(tmp_path):
    name = NAMES[0]
    store = Store.create(tmp_path / "league", shipped_checkpoint(name).env)
    assert store.add(f"trained:{name}").id == trained()[name].sha256 == resolve(f"trained:{name}").id


def test_load_policy_returns_network():
    name = f"trained:{NAMES[0]}"
    policy = echelon.load_policy(name, "cpu")
    assert isinstance(policy, ActorCritic) and load_policy is echelon.load_policy
    assert weight_bytes(policy.state_dict()) == (FOLDER / NAMES[0] / POLICY).read_bytes()
    with pytest.raises(ConfigError, match=r"^a trained policy must be trained:NAME, .*, got 'heuristic:hard'$"):
        load_policy("heuristic:hard")
    with pytest.raises(ConfigError, match=r"^a trained policy must be one of .*, got 'unknown'$"):
        load_policy("trained:unknown")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A writable copy of the policies' folder."""
    shutil.copytree(FOLDER, tmp_path / "trained")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "trained")
    return tmp_path / "trained"


def test_weights_that_differ_from_table_raise(copied):
    weights, name = copied / NAMES[0] / POLICY, f"trained:{NAMES[0]}"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(FileError, match=r"^policy.safetensors: sha256 mismatch: expected .*$"):
        load_policy(name)
    metadata = json.loads((copied / NAMES[0] / METADATA).read_text())
    metadata["files"][POLICY] = "0" * 64
    (copied / NAMES[0] / METADATA).write_text(json.dumps(metadata))
    with pytest.raises(FileError, match=rf"^{name}: sha256 must be [0-9a-f]+, as in trained.json, got '0+'$"):
        resolve(name)


def test_page_lists_sizes_and_licence_of_the_files(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sizes = importlib.import_module("policy_sizes")
    assert f"\n{sizes.table()}\n" in (ROOT / "benchmarks" / "README.md").read_text()
    assert (ROOT / "LICENSE").read_text().startswith(f"{sizes.LICENCE} License")
    policy = shipped_checkpoint("quick").policy()
    once, twice = (sizes.flops_of(policy, shipped_checkpoint("quick").env) for _ in range(2))
    # A matrix product of m * n * k takes 2 * m * n * k operations; the LSTM alone has two of 64 * 256.
    assert once == twice > 2 * 2 * 64 * 256
