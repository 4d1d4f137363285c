"""Provenance of weights is stored, inherited and never dropped."""

import dataclasses
import hashlib
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import TINY, tiny_run

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.agents.names import policy_of
from echelon.learn.checkpoint.files import gather_provenance, newest_checkpoint, save_checkpoint
from echelon.learn.checkpoint.format import METADATA, POLICY, Counters, open_checkpoint
from echelon.learn.checkpoint.provenance import (
    ENTRIES,
    MOST,
    NOTHING,
    PROVENANCE,
    UNKNOWN,
    Provenance,
    battle_hash,
    battle_hashes,
    provenance_from_json,
    provenance_of,
    weight_hash,
)
from echelon.learn.checkpoint.shipped import shipped_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.named import NamedOpponents
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig, RewardConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import RULES_VERSION
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.piece import find_piece, pieces
from echelon.scenarios.scene import config_of_words

SMALL = EnvConfig.small()
TRAIN, TEST = (dataclasses.replace(SMALL, split=split) for split in ("train", "test"))
WEIGHTS = "0" * 64


def newest(folder):
    return open_checkpoint(newest_checkpoint(folder / "checkpoints"))


def saved(path, **settings):
    policy = TINY.build(PolicySpecs(8))
    save_checkpoint(path, policy, ValueNorm(), SMALL, Counters(), {}, **settings)
    return open_checkpoint(path)


def past_pool():
    """A custom pool with one named policy."""

    class Pool:
        weights = TINY.build(PolicySpecs(8)).state_dict()
        shares = {"rival": 1.0}  # noqa: RUF012

        def weights_of(self, name):
            return self.weights

    return Pool()


def test_run_stores_provenance_and_children_inherit_it(tmp_path):
    run = tiny_run(env=dataclasses.replace(tiny_run().env, split="train"), total_agent_steps=10**6)
    first = Trainer(run, tmp_path / "first")
    first.save()
    assert newest(tmp_path / "first").provenance == NOTHING, "no training yet"
    first.train(1)
    found = newest(tmp_path / "first").provenance
    assert found == Provenance(
        battles=battle_hashes(run.env),
        opponents=("heuristic:normal",),
        partners=("self",),
        rules=(str(RULES_VERSION),),
        splits=("train",),
    )
    other = dataclasses.replace(run, env=dataclasses.replace(run.env, split=None, map_seed=4), opponent="self")
    child = Trainer(other, tmp_path / "child", newest(tmp_path / "first"))
    assert child.resume_note.startswith("battles start anew"), "on maps of another split"
    child.train(1)
    inherited = newest(tmp_path / "child").provenance
    assert inherited.opponents == ("heuristic:normal", "self") and inherited.splits == ("none:4", "train")
    assert inherited.battles == found.battles and inherited.unknown == ()


def test_opponents_with_weights_are_stored_by_hash(tmp_path):
    rival = saved(tmp_path / "rival")
    named = tiny_run(opponent=str(rival.path))
    trainer = Trainer(named, tmp_path / "named", opponent_of=lambda *_: rival.policy())
    trainer.train(1)
    assert trainer.provenance.opponents == (rival.metadata["files"][POLICY],)
    pool = past_pool()
    shares = tiny_run(opponent="past", past_blocks=1, num_envs=4)
    trainer = Trainer(shares, tmp_path / "past", opponent_pool=pool)
    trainer.train(1)
    assert trainer.provenance.opponents == (weight_hash(pool.weights),)
    alone = Trainer(shares, tmp_path / "alone")
    alone.train(1)
    assert alone.provenance.opponents == ("self",)


def test_commander_with_unprintable_name_is_stored(tmp_path):
    """Also a name that no file may contain."""
    trainer = Trainer(tiny_run(opponent="a\nb"), tmp_path, opponent_of=lambda _, env, device: Heuristic(env))
    trainer.train(1)
    assert newest(tmp_path).provenance.opponents == (hashlib.sha256(b"a\nb").hexdigest(),)


def test_parent_without_provenance_makes_children_unknown(tmp_path):
    Trainer(tiny_run(total_agent_steps=10**6), tmp_path / "run").train(1)
    start = newest(tmp_path / "run")
    metadata = {name: value for name, value in start.metadata.items() if name != PROVENANCE}
    (start.path / METADATA).write_text(json.dumps(metadata))
    start = open_checkpoint(start.path)
    assert start.provenance == UNKNOWN
    child = Trainer(tiny_run(total_agent_steps=10**6), tmp_path / "child", start)
    child.train(1)
    found = newest(tmp_path / "child").provenance
    assert found.opponents == ("heuristic:normal",) and found.unknown == tuple(ENTRIES)
    assert found.opponent_exposure("heuristic:normal") == "met"
    assert found.opponent_exposure("heuristic:hard") == "unknown" == found.map_exposure(TEST)


def test_weights_without_provenance_are_unknown(tmp_path):
    assert saved(tmp_path / "own").provenance == UNKNOWN
    assert saved(tmp_path / "told", provenance=provenance_of(TRAIN, ["self"])).provenance == provenance_of(
        TRAIN, ["self"]
    )


def test_training_in_split_test_needs_flag_and_is_recorded(tmp_path):
    env = dataclasses.replace(tiny_run().env, split="test")
    limit = "--split must be train or validation: test is for evaluation only, unless --allow-test, got 'test'"
    with pytest.raises(ConfigError, match=limit):
        tiny_run(env=env)
    Trainer(tiny_run(env=env, allow_test=True), tmp_path).train(1)
    assert newest(tmp_path).provenance.splits == ("test",)
    assert newest(tmp_path).provenance.map_exposure(TEST) == "met"


def test_maps_are_not_met_only_in_disjoint_splits():
    trained = provenance_of(TRAIN, ["heuristic:easy"])
    assert trained.map_exposure(TRAIN) == trained.map_exposure(dataclasses.replace(TRAIN, map_seed=9)) == "met"
    assert trained.map_exposure(TEST) == "not met"
    assert trained.map_exposure(SMALL) == "unknown", "without a split any map may be used"
    loose = provenance_of(SMALL, [])
    assert loose.map_exposure(SMALL) == "met"
    assert loose.map_exposure(TEST) == "unknown" == loose.map_exposure(dataclasses.replace(SMALL, map_seed=1))
    assert NOTHING.map_exposure(SMALL) == "not met" and UNKNOWN.map_exposure(TEST) == "unknown"


def test_weights_may_equal_an_earlier_self():
    assert provenance_of(TRAIN, [WEIGHTS]).opponent_exposure(WEIGHTS) == "met"
    assert provenance_of(TRAIN, ["heuristic:easy"]).opponent_exposure(WEIGHTS) == "not met"
    assert provenance_of(TRAIN, ["self"]).opponent_exposure(WEIGHTS) == "unknown"
    assert provenance_of(TRAIN, ["self"]).opponent_exposure("heuristic:easy") == "not met"


def test_battle_hash_ignores_rewards():
    same = dataclasses.replace(SMALL, reward=RewardConfig(kill=2.0), map_pool=3, map_spares=1, map_seed=5, split="test")
    assert battle_hash(same) == battle_hash(SMALL)
    assert battle_hash(dataclasses.replace(SMALL, rules=RulesConfig(max_episode_s=5.0))) != battle_hash(SMALL)


def test_battle_hash_depends_on_position_and_objective():
    def scenario(x, kind="zone"):
        scene = echelon.Scene(objective=echelon.Objective(kind))
        return scene.place("blue", "medium", at=(x, 20)).place("red", "heavy", at=(30, 20)).scenario

    near, far = scenario(14), scenario(8)
    met = provenance_of(echelon.scene_config([near, far], weights=[3, 1]))
    assert len(met.battles) == 2 and met.splits == ()
    assert met.map_exposure(SMALL) == "not met" and met.battle_exposure(SMALL) == "not met"
    for config, verdict in (
        (near.config, "met"),
        (echelon.scene_config([far, scenario(9)]), "met"),
        (scenario(9).config, "not met"),
        (scenario(14, "elimination").config, "not met"),
    ):
        assert met.battle_exposure(config) == met.map_exposure(config) == verdict
        assert UNKNOWN.battle_exposure(config) == "unknown"


NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=3), max_size=400).map(lambda names: tuple(sorted(set(names))))


@given(NAMES, NAMES)
def test_union_drops_entries_only_if_marked_unknown(ours, theirs):
    one = Provenance().union(Provenance(opponents=ours))
    both = one.union(Provenance(opponents=theirs))
    assert len(both.opponents) <= MOST and list(both.opponents) == sorted(set(both.opponents))
    assert set(one.opponents) <= set(both.opponents), "earlier entries stay"
    for name in {*ours, *theirs}:
        assert both.exposure("opponents", name) == ("met" if name in both.opponents else "unknown")
    assert ("opponents" in both.unknown) == (len({*ours, *theirs}) > MOST)
    assert provenance_from_json({PROVENANCE: json.loads(json.dumps(both.as_json()))}, METADATA) == both


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (None, "an object, got None"),
        ({"more": []}, r"provenance.more must be absent"),
        ({"splits": ["exam"]}, r"provenance.splits\[0\] must be a split"),
        ({"splits": ["train", "test"]}, r"provenance.splits must be sorted, without duplicates"),
        ({"opponents": ["self", "self"]}, r"provenance.opponents must be sorted, without duplicates"),
        ({"opponents": ["a\nb"]}, r"provenance.opponents\[0\] must be a text of at most 255"),
        ({"opponents": [7]}, r"provenance.opponents\[0\] must be a text"),
        ({"battles": ["xyz"]}, r"provenance.battles\[0\] must be 16 hexadecimal digits"),
        ({"battles": [f"{n:016x}" for n in range(MOST + 1)]}, r"provenance.battles must be a list of 0..256"),
        ({"rules": ["-1"]}, r"provenance.rules\[0\] must be a version"),
        ({"unknown": ["all"]}, r"provenance.unknown\[0\] must be one of battles, opponents"),
    ],
)
def test_invalid_provenance_raises_one_line(tmp_path, change, says):
    found = saved(tmp_path / "one")
    values = None if change is None else {**found.metadata[PROVENANCE], **change}
    (found.path / METADATA).write_text(json.dumps({**found.metadata, PROVENANCE: values}))
    with pytest.raises(FileError, match=says) as error:
        open_checkpoint(found.path)
    assert "\n" not in str(error.value)


def test_provenance_of_all_processes_is_written():
    class Others:
        def gather_texts(self, text):
            return [text, json.dumps(provenance_of(TEST, ["heuristic:hard"]).as_json())]

    found = gather_provenance(provenance_of(TRAIN, ["heuristic:easy"]), Others())
    assert found.opponents == ("heuristic:easy", "heuristic:hard") and found.splits == ("test", "train")


def test_weight_hash_equals_hash_of_file(tmp_path):
    found = saved(tmp_path / "one")
    weights = found.policy().state_dict()
    assert weight_hash(weights) == found.metadata["files"][POLICY]
    weights[next(iter(weights))] = torch.zeros(1)
    assert weight_hash(weights) != found.metadata["files"][POLICY]


def test_scenarios_of_a_batch_are_met_and_others_are_not():
    """The mixture changes a piece's roster, clock and winning score, which must not change what the piece is."""
    mixture = config_of_words(("plain", "wait", "hold_fire", "missile_guard"), SMALL)
    found = provenance_of(
        dataclasses.replace(mixture, rules=dataclasses.replace(mixture.rules, time_up_terminates=True))
    )
    assert [name for name in pieces() if found.battle_exposure(find_piece(name).scenario.config) == "met"] == [
        "hold_fire",
        "missile_guard",
        "wait",
    ]
    assert found.battle_exposure(SMALL) == found.map_exposure(SMALL) == "met"
    other = dataclasses.replace(SMALL, blue=SMALL.blue[:4])
    assert found.battle_exposure(other) == "not met"


def test_battles_of_older_checkpoints_are_met():
    config = find_piece("wait").scenario.config
    for old in (SMALL, config):
        assert Provenance(battles=(battle_hash(old),)).battle_exposure(old) == "met"


def test_skilled_met_the_pieces_it_was_trained_on():
    found = shipped_checkpoint("skilled").provenance
    unmet = {name for name in pieces() if found.battle_exposure(find_piece(name).scenario.config) == "not met"}
    assert unmet == {"come_back", "jam", "rear_arc", "split_up"}


def test_opponents_of_scenarios_are_stored():
    env = config_of_words(("wait", "jump_wall"), SMALL)
    seen = NamedOpponents(env, ["scenario:easy"], "scenario:easy", 1.0, torch.device("cpu"), policy_of, False)
    assert seen.opponents_seen() == {"scenario:easy", "heuristic:hard", "heuristic:trivial"}
