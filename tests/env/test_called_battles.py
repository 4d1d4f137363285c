"""Battles that a collector steps with plain tensors equal those stepped by TorchRL."""

import dataclasses

import pytest
import torch
from tensordict import TensorDictBase
from torchrl.data import Composite, Unbounded

from echelon.env.env import EchelonEnv
from echelon.env.restart import NextMemory
from echelon.env.static_battles import CalledBattles
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import jit

BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=1.5), map_pool=3)
BATTLES = 4


def leaves(td: TensorDictBase) -> dict:
    """Return leaves by key, without entries that only `step_mdp` carries on."""
    flat = {key if isinstance(key, tuple) else (key,): leaf for key, leaf in td.items(True, True)}
    return {key: leaf for key, leaf in flat.items() if key[-1] not in ("action", "reward")}


def assert_equal(ours: TensorDictBase, theirs: TensorDictBase) -> None:
    own, expected = leaves(ours), leaves(theirs)
    assert own.keys() == expected.keys()
    for key, leaf in expected.items():
        assert own[key].dtype == leaf.dtype and torch.equal(own[key], leaf), key


@pytest.mark.parametrize("backend", ["eager", *["loops"] * jit.HAS_LOOPS])
@pytest.mark.parametrize("by_row", [True, False])
def test_called_battles_equal_torchrl_steps(backend, by_row):
    def made() -> EchelonEnv:
        memory = Composite(seen=Unbounded((2,)))
        env = EchelonEnv(BRIEF, BATTLES, "cpu", seed=torch.arange(BATTLES), memory=memory, backend=backend)
        env.restarts_by_row = by_row
        return env

    stepped, played = made(), made()
    td, first = stepped.reset(), played.reset()
    # Set different clocks, so that battles end one after the other.
    for env in (stepped, played):
        ticks = torch.arange(BATTLES) * env.config.rules.decision_repeat
        env.state = env.state.replace(tick=ticks)
    untouched, battles, ends = first.clone(), CalledBattles(played, first), 0
    for _ in range(8):
        td = stepped.rand_action(td)
        for group in stepped.group_map:
            td["next", group, "memory", "seen"] = td[group, "memory", "seen"] + 1
        decided = battles.leaves | {(g, "action"): td[g, "action"].clone() for g in stepped.group_map}
        after, td = stepped.step_and_maybe_reset(td)
        told = battles.step(decided)
        ended = battles.ended(told)
        assert (ended is not None) == by_row
        assert torch.equal(told["done",], after["next", "done"])
        for group in stepped.group_map:
            assert torch.equal(told[group, "observation", "contacts"], after["next", group, "observation", "contacts"])
        memories = [NextMemory((g, "memory", "seen"), 0, decided[g, "memory", "seen"] + 1) for g in stepped.group_map]
        ends += int(told["done",].sum())
        battles.restart(told, memories, ended)
        assert_equal(battles.current, td)
        assert_equal(played.last_observation(), stepped.last_observation())
        assert torch.equal(played.next_seed, stepped.next_seed)
        assert all((mine == theirs).all() for mine, theirs in zip(leaves_of(played), leaves_of(stepped), strict=True))
    assert ends >= BATTLES and not torch.equal(first["telemetry"], battles.telemetry)
    assert_equal(first, untouched)


def leaves_of(env: EchelonEnv) -> list[torch.Tensor]:
    """Return every tensor of the battles, with terrain."""
    return list(env.state.to_tensordict().values(True, True))
