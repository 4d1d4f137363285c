"""Errors for missing input entries name the entry, the existing ones, and a fix."""

import dataclasses
from collections.abc import Callable

import pytest
from tensordict import TensorDictBase

import echelon
from echelon.runtime.errors import ConfigError
from echelon.views.group_policy import GroupPolicy, memory_spec

CONFIG = dataclasses.replace(echelon.EnvConfig.small(), map_pool=2)
VERSUS = 'Make echelon.versus or mechs with observation="structured" and memory=policy.memory_spec()'


@pytest.fixture(scope="module")
def policy():
    return echelon.load_policy("trained:quick", "cpu")


@pytest.fixture(scope="module")
def inputs(policy) -> dict[str, TensorDictBase]:
    """Initial observations of environments that lack an entry."""
    own = {"num_envs": 2, "device": "cpu", "seed": 0}
    return {
        "both teams": echelon.EchelonEnv(CONFIG, **own).reset(),
        "another name": echelon.EchelonEnv(CONFIG, memory=memory_spec(theirs=policy), **own).reset(),
        "flat": echelon.versus(CONFIG, "heuristic:easy", **own).reset(),
        "no memory": echelon.versus(CONFIG, "heuristic:easy", observation="structured", **own).reset(),
    }


CASES: dict[str, tuple[str, Callable, str, str]] = {
    "network on both teams": (
        "both teams",
        lambda policy: policy,
        r"\('observation', 'ego'\): expected in the input of the policy, got blue, red, telemetry",
        "GroupPolicy acts for a team of an EchelonEnv",
    ),
    "operator on flat observations": (
        "flat",
        lambda policy: policy.get_policy_operator("agents"),
        r"\('agents', 'observation', 'ego'\): .*, got a tensor under \('agents', 'observation'\)",
        VERSUS,
    ),
    "operator without memory": (
        "no memory",
        lambda policy: policy.get_policy_operator("agents"),
        r"\('agents', 'memory', 'h'\): .*, got mask, reward_terms, observation under \('agents',\)",
        VERSUS,
    ),
    "critic without memory": (
        "no memory",
        lambda policy: policy.get_value_operator("agents"),
        r"\('agents', 'memory', 'h'\)",
        VERSUS,
    ),
    "head without its operator": (
        "no memory",
        lambda policy: policy.get_policy_head("agents"),
        r"\('agents', 'embed'\)",
        "Call a policy or value operator before its heads",
    ),
    "group policy without memory": (
        "both teams",
        lambda policy: GroupPolicy(policy, "blue", "mine"),
        r"\('blue', 'memory', 'mine'\): .*, got observation, mask, reward_terms under \('blue',\)",
        r"EchelonEnv(..., memory=memory_spec(mine=policy))",
    ),
    "group policy of another name": (
        "another name",
        lambda policy: GroupPolicy(policy, "red", "mine"),
        r"\('red', 'memory', 'mine'\): .*, got theirs under \('red', 'memory'\)",
        r"EchelonEnv(..., memory=memory_spec(mine=policy))",
    ),
    "group policy of no group": (
        "both teams",
        lambda policy: GroupPolicy(policy, "agents", "mine"),
        r"\('agents', 'observation'\): .*, got blue, red, telemetry",
        "memory_spec(mine=policy)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_missing_input_entry_is_named(policy, inputs, name):
    data, made, words, hint = CASES[name]
    with pytest.raises(ConfigError, match=words) as error:
        made(policy)(inputs[data].clone())
    assert hint in str(error.value) and "\n" not in str(error.value)
