"""A battle depends on its own seed only, not on its row in the batch."""

import dataclasses

import pytest
import torch
from builders import brawl

from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig

BATTLES, DECISIONS = 7, 60
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=16, rules=RulesConfig(max_episode_s=9.0))
"""Battles of 36 decisions, so that each restarts once."""


@pytest.fixture(scope="module")
def batch():
    """Return seven battles: their seeds, states and steps with actions."""
    env = EchelonEnv(CONFIG, BATTLES, "cpu", seed=9)
    seeds, generator = env.next_seed, torch.Generator().manual_seed(2)
    td, steps, states = env.reset(), [], []
    for _ in range(DECISIONS):
        step, td = env.step_and_maybe_reset(brawl(td, generator))
        steps.append(step.clone())
        states.append(env.state.clone())  # terrain changes in place
    states = torch.stack(states)
    assert states.terrain.rubble.any() and states.terrain.damage.any()  # wrecks, and terrain damaged by shots
    return env, seeds, torch.stack(steps), states


@pytest.mark.requirement("R16", "R55")
@pytest.mark.parametrize("place", [0, 5])
def test_single_battle_equals_the_same_battle_in_a_batch(batch, place):
    together, seeds, steps, states = batch
    assert (steps["next", "done"][:, place].sum() >= 1) and steps["next", "red", "reward"].any()
    env = EchelonEnv(CONFIG, 1, "cpu", seed=seeds[place : place + 1], maps=together.sim_model.maps)
    td = env.reset()
    for t in range(DECISIONS):
        for group in ("blue", "red"):
            td[group, "action"] = steps[t, place : place + 1][group, "action"]
        step, td = env.step_and_maybe_reset(td)
        wanted = steps[t, place : place + 1]
        for key in wanted.keys(True, True):
            assert torch.equal(step[key], wanted[key]), (t, key)
        alone, state = env.state.to_tensordict(), states[t, place : place + 1].to_tensordict()
        for key in state.keys(True, True):
            assert torch.equal(alone[key], state[key]), (t, key)
