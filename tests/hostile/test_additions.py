"""Invalid arguments of matches, extensions of the environment and torchrun variables raise one ConfigError each."""

import dataclasses
import json
import os
from contextlib import closing

import pytest
import torch
from builders import flat_maps
from leagues import fought

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match
from echelon.env.env import EchelonEnv
from echelon.league.store import Store
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime.distributed import init_ranks

from .refusals import refusal

pytestmark = pytest.mark.long

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)


@pytest.fixture(scope="module")
def maps():
    return flat_maps(CONFIG)


# Matches and recorders

X, Y = Heuristic(CONFIG, "easy"), Heuristic(CONFIG, "easy")
MATCHES = {
    "x without a policy": (("x", None), {"y": Y}, CONFIG),
    "x that is a name": ("x", {"y": Y}, CONFIG),
    "x of three": (("x", X, Y), {"y": Y}, CONFIG),
    "no others": (("x", X), None, CONFIG),
    "others that are one": (("x", X), Y, CONFIG),
    "others of names": (("x", X), {"y": "heuristic:easy"}, CONFIG),
    "no config": (("x", X), {"y": Y}, None),
    "a preset's name as config": (("x", X), {"y": Y}, "small"),
}


@pytest.mark.parametrize("arguments", MATCHES.values(), ids=MATCHES)
def test_match_refuses_invalid_policies(arguments):
    refusal(lambda: Match(*arguments, 2, ArenaConfig(CPU)), " must be ")


DECIDES = {
    "nothing": lambda team: None,
    "what it was shown": lambda team: team,
    "a narrow action": lambda team: team.set("action", torch.zeros(*team.shape, 25)),
    "an action of text": lambda team: {"action": "forward"},
}


@pytest.mark.parametrize("policy", DECIDES.values(), ids=DECIDES)
def test_policy_must_write_actions(policy):
    refusal(
        lambda: Match(("x", policy), {"y": Y}, CONFIG, 2, ArenaConfig(CPU)).play(0),
        "the action of function must be of shape (",
    )


@pytest.mark.parametrize("battles", [[], [-1], ["a"], None, [0.5], [10**20], "01", 5, [True]], ids=repr)
def test_recorder_refuses_invalid_battle_count(battles):
    refusal(lambda: Recorder(battles), "Recorder.battles must be ")


# Extensions by users


WRONG_NAMES = {"none": None, "a number": 5, "nothing": "", "two words": "a b", "escape codes": "\x1b[31m"}
WRONG_NAMES |= {"a long one": "x" * 10**5, "a path": "../x"}
WRONG_FUNCTIONS = {"a number": 5, "of nothing": lambda: 0, "of one": json.loads, "of a system": os.system, "none": None}


@pytest.mark.parametrize("name", WRONG_NAMES.values(), ids=WRONG_NAMES)
def test_registered_name_must_be_identifier(name, maps):
    refusal(lambda: echelon.register_biome(name, lambda *_: None), "the name of a biome must be ")
    extra = {name: echelon.RewardTerm(lambda *_: torch.zeros(2, 10))}
    refusal(lambda: EchelonEnv(CONFIG, 2, "cpu", 0, maps=maps, extra_rewards=extra), "a name in extra_rewards must be ")


@pytest.mark.parametrize("function", WRONG_FUNCTIONS.values(), ids=WRONG_FUNCTIONS)
def test_registered_function_must_accept_arguments(function, maps):
    refusal(lambda: echelon.register_biome("lake", function), "a function of (material, where, seeds, world)")
    extra = {"mine": echelon.RewardTerm(function)}
    said = "a function of (before, after, ending, sim_model)"
    refusal(lambda: EchelonEnv(CONFIG, 2, "cpu", 0, maps=maps, extra_rewards=extra), said)


@pytest.mark.parametrize("weight", ["x", None, 1e300, float("nan"), True, 1j], ids=repr)
def test_reward_weight_must_be_number(weight, maps):
    extra = {"mine": echelon.RewardTerm(lambda *_: torch.zeros(2, 10), weight)}
    refusal(lambda: EchelonEnv(CONFIG, 2, "cpu", 0, maps=maps, extra_rewards=extra), "'mine'].weight must be ")


@pytest.mark.parametrize("paid", [None, 1.0, [0], torch.zeros(2, 10, dtype=torch.complex64)], ids=repr)
def test_reward_term_must_return_real_numbers(paid, maps):
    extra = {"mine": echelon.RewardTerm(lambda *_: paid)}
    env = EchelonEnv(CONFIG, 2, "cpu", 0, maps=maps, extra_rewards=extra)
    refusal(lambda: env.rollout(1), "'mine'] must be a tensor of real numbers")


# Leagues


@pytest.mark.parametrize("folder", ["a file/league", "y" * 300, "/proc/no/league"])
def test_uncreatable_league_is_refused(folder, tmp_path):
    (tmp_path / "a file").touch()
    refusal(lambda: Store.create(tmp_path / folder, CONFIG), "league.sqlite: cannot be created: ")
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_seed_beyond_64_bits_is_refused(tmp_path):
    with closing(Store.create(tmp_path / "league", CONFIG)) as store:
        one, two, *_ = (entry.id for entry in store.entries())
        refusal(lambda: store.record([fought(one, two, 2**63)]), "cannot be read or written")
        assert store.matches() == []


# Variables of torchrun


VARIABLES = {
    "a size that is none": {"WORLD_SIZE": "two"},
    "a size of 0": {"WORLD_SIZE": "0"},
    "a size below 0": {"WORLD_SIZE": "-2"},
    "a size of 400 digits": {"WORLD_SIZE": "9" * 400},
    "an empty size": {"WORLD_SIZE": ""},
    "no rank": {"WORLD_SIZE": "2"},
    "a rank that is none": {"WORLD_SIZE": "2", "RANK": "x"},
    "a rank beyond the size": {"WORLD_SIZE": "2", "RANK": "2"},
    "a local rank that is none": {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "²"},
    "no address": {"WORLD_SIZE": "2", "RANK": "0"},
    "no port": {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1"},
    "a port that is none": {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "x"},
}


@pytest.mark.parametrize("variables", VARIABLES.values(), ids=VARIABLES)
def test_invalid_torchrun_variables_are_refused(variables, monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refusal(init_ranks)
    assert not torch.distributed.is_initialized()
