"""The flat observation contains every stream."""

import dataclasses

import pytest
import torch
from builders import brawl
from torchrl.envs import TransformedEnv
from torchrl.envs.utils import check_env_specs

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules.config import EnvConfig
from echelon.views.transforms import FlatObservation

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2)


@pytest.fixture(scope="module")
def fight():
    """Return battles after some decisions, so that every stream has content."""
    env = EchelonEnv(CONFIG, 3, "cpu", seed=1)
    generator, td = torch.Generator().manual_seed(0), env.reset()
    for _ in range(40):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    return env, td


@pytest.mark.parametrize("group", ["blue", "red"])
def test_flat_vector_restores_the_streams(fight, group):
    env, td = fight
    streams = td[group, "observation"]
    back = FlatObservation.restore(FlatObservation.of(streams), env.observation_spec[group, "observation"])
    assert set(back.keys()) == set(layout.STREAMS)
    for name in layout.STREAMS:
        assert streams[name].any() and back[name].dtype == streams[name].dtype, name
        assert torch.equal(back[name], streams[name]), name


def test_flat_width_matches_the_layout():
    env = TransformedEnv(EchelonEnv(CONFIG, 2, "cpu", seed=0), FlatObservation())
    streams = env.observation_spec["blue", "observation"]
    sizes = {name: streams[name].shape[2:].numel() for name in layout.STREAMS}
    assert sizes["contacts"] + sizes["contacts_mask"] == 9 * (layout.width(layout.CONTACT) + 1)
    assert sizes["squad"] + sizes["squad_mask"] == 5 * (layout.width(layout.SQUAD) + 1)
    assert (sizes["ego"], sizes["comms"], sizes["local_map"]) == (layout.width(layout.EGO), 5 * 8, 11 * 11)
    width = sum(sizes.values())
    assert env.observation_spec["blue", "flat"].shape == (2, 5, width)
    assert env.reset()["red", "flat"].shape == (2, 5, width)


def test_transformed_environment_has_valid_specs():
    env = TransformedEnv(EchelonEnv(CONFIG, 2, "cpu", seed=0), FlatObservation())
    check_env_specs(env)
    rollout = env.rollout(5, break_when_any_done=False)
    for where in (rollout, rollout["next"]):
        assert torch.equal(where["blue", "flat"], FlatObservation.of(where["blue", "observation"]))
    space = env.observation_spec["blue", "flat"].space
    flat = rollout["blue", "flat"].transpose(0, 1)
    assert (flat >= space.low - 1e-6).all() and (flat <= space.high + 1e-6).all()
