"""Renewal of maps does not affect running battles; maps are drawn by weight."""

import dataclasses

import pytest
import torch
from builders import brawl, flat_maps

from echelon.env.env import EchelonEnv
from echelon.env.map_pool import draw_map
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.world.pool import write_recipes

pytestmark = pytest.mark.quick

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=3, map_spares=2, rules=RulesConfig(max_episode_s=2.0))


def env_of(config=CONFIG, seed=1, num_envs=6):
    return EchelonEnv(config, num_envs, "cpu", seed=seed)


def play(env, decisions, td=None, generator=None):
    generator = generator or torch.Generator().manual_seed(0)
    td = env.reset() if td is None else td
    for _ in range(decisions):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    return td


def test_spares_are_not_drawn():
    env = env_of(num_envs=64)
    assert env.sim_model.maps.shape[0] == 5 and set(env.state.map_id.tolist()) == {0, 1, 2}


@pytest.mark.usual
def test_renewed_maps_replace_the_oldest():
    env = env_of()
    before = env.sim_model.maps.clone()
    assert env.renew_maps() == 2
    assert env.map_pool.active.tolist() == [3, 4, 2] and env.map_pool.spares == [0, 1]
    assert torch.equal(env.sim_model.maps.material[:3], before.material[:3])
    assert not torch.equal(env.sim_model.maps.material[3], before.material[3])
    play(env, 9)  # every battle ends after eight decisions, and then draws one of the new maps
    assert set(env.state.map_id.tolist()) <= {3, 4, 2}
    assert env.renew_maps() == 2 and env.map_pool.active.tolist() == [1, 4, 0] and env.map_pool.spares == [2, 3]


def test_spare_in_use_is_not_renewed():
    env = env_of()
    env.renew_maps()
    old = env.state.map_id
    assert set(old.tolist()) & {0, 1}
    kept = env.sim_model.maps.clone()
    renewed = env.renew_maps()
    in_use = set(old.tolist()) & {0, 1}
    assert renewed == 2 - len(in_use)
    for spare in in_use:
        assert torch.equal(env.sim_model.maps.material[spare], kept.material[spare])


@pytest.mark.usual
def test_renewal_does_not_change_running_battles():
    """Until their ends, battles have the same bits as in an environment without renewal."""
    still, renewed = env_of(), env_of()
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    one, other = (play(env, 4, generator=g) for env, g in zip((still, renewed), generators, strict=True))
    renewed.renew_maps()
    one, other = (play(env, 3, td, g) for env, td, g in zip((still, renewed), (one, other), generators, strict=True))
    for key in one.keys(True, True):
        assert torch.equal(one[key], other[key]), key


def test_initial_observation_is_of_the_renewed_map():
    env = env_of()
    env.renew_maps()
    env.set_seed(5)
    td = env.reset()
    assert torch.equal(td["telemetry"], env.sim_model.maps.telemetry[env.state.map_id])
    alone = EchelonEnv(
        dataclasses.replace(CONFIG, map_spares=0), 6, "cpu", seed=5, maps=env.sim_model.maps[env.map_pool.active]
    )
    shown = alone.reset()
    for key in ("contacts", "ego", "local_map"):
        assert torch.equal(shown["blue", "observation", key], td["blue", "observation", key])


@pytest.mark.usual
def test_renewals_are_reproducible_by_seed():
    one, other = env_of(), env_of(seed=9)
    for env in (one, other):
        env.renew_maps()
    assert [r.sha256 for r in write_recipes(one.sim_model.maps)] == [
        r.sha256 for r in write_recipes(other.sim_model.maps)
    ]
    again = write_recipes(one.sim_model.maps)[3].make(CONFIG)
    assert torch.equal(again.material[0], one.sim_model.maps.material[3])


def test_shared_maps_are_not_renewed():
    assert env_of(dataclasses.replace(CONFIG, map_spares=0)).renew_maps() == 0
    shared = EchelonEnv(CONFIG, 2, "cpu", seed=1, maps=env_of().sim_model.maps)
    with pytest.raises(ConfigError, match="maps must be maps that this environment generated itself"):
        shared.renew_maps()
    with pytest.raises(ConfigError, match=r"EnvConfig.map_spares must be less than 1, the number of maps, got 2"):
        EchelonEnv(CONFIG, 2, "cpu", seed=1, maps=flat_maps(CONFIG))
    with pytest.raises(ConfigError, match=r"EnvConfig.map_spares must be 0\.\.map_pool, got 4"):
        dataclasses.replace(CONFIG, map_spares=4)


@pytest.mark.requirement("R54")
@pytest.mark.usual
def test_maps_are_drawn_by_their_weights():
    env = env_of(num_envs=600)
    slots, opened = env.map_pool.map_slots, env.state.map_id
    assert torch.equal(opened, draw_map(env.state.seed, env.map_pool.active)), "as with one slot per map"
    env.map_pool.set_weights([1, 0, 3, 7, 7])
    assert env.map_pool.map_slots is slots and env.state.map_id is opened
    assert slots.bincount().tolist() == [256, 0, 770] and slots.shape == (1026,)
    env.set_seed(3)
    env.reset()
    assert 100 < int((env.state.map_id == 0).sum()) < 200 and not (env.state.map_id == 1).any()
    assert env.rollout(1, set_truncated=False) is not None
    env.renew_maps()
    assert env.map_pool.active.tolist() == [3, 4, 2] and slots.bincount().tolist() == [0, 0, 770, 256]
    assert torch.equal(env._another(2).map_pool.map_slots, slots)


def test_small_weight_is_drawn_sometimes_with_random_offset():
    pool, often = env_of().map_pool, torch.zeros(3)
    for step in range(100):
        pool.assign_slots(torch.tensor([1e-4, 0.5, 0.5]), step / 100)
        often += pool.map_slots.bincount(minlength=3)
    assert 5 < often[0] < 20 and often.sum() == 100 * len(pool.map_slots)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 2, 3], r"\[5\] numbers, one per map, got \(3,\)"),
        ([1, -1, 1, 1, 1], "finite and >= 0"),
        ([float("nan")] * 5, "finite and >= 0"),
        ([0, 0, 0, 1, 1], "> 0 for a map that is not a spare"),
    ],
)
def test_invalid_weights_raise(weights, said):
    with pytest.raises(ConfigError, match=f"^weights must be {said}"):
        env_of().map_pool.set_weights(weights)
