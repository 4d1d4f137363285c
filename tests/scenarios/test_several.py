"""Battles of one batch that start from different positions, and configs that contain them."""

import dataclasses

import pytest
import torch

import echelon
from echelon import EnvConfig, Scene
from echelon.env.footprint import require_memory
from echelon.env.map_pool import draw_map
from echelon.rules.config import env_from_json
from echelon.rules.config_json import battle_difference
from echelon.rules.position import Position, drawn_positions
from echelon.runtime.errors import ConfigError


def duel(x: float = 12, height: int = 4, **settings):
    base = dataclasses.replace(EnvConfig.small(), **settings)
    scene = Scene(base, zone=(int(x), 20, 5)).wall((19, 10), (21, 30), height)
    return scene.place("blue", "medium", at=(x, 20)).place("red", "heavy", at=(30, 20.5), facing_deg=180).scenario


def test_each_battle_starts_in_the_position_drawn_by_its_seed():
    near, far = duel(14, 2), duel(8, 6)
    env = echelon.scene([near, far], 12, "cpu", seed=0)
    assert env.config == echelon.scene_config([near, far]) and env.sim_model.maps.shape == (2,)
    env.reset()
    which, seeds = env.state.map_id, env.state.seed
    assert torch.equal(which, draw_map(seeds, torch.arange(2))) and 0 < int(which.sum()) < 12
    assert env.state.mechs.pos[:, 0, 0].tolist() == [(14.0, 8.0)[place] for place in which]
    assert [bin(one).count("1") for one in env.state.terrain.solid[:, 15, 19].tolist()] == [(2, 6)[p] for p in which]
    alone = echelon.scene(far, 1, "cpu", seed=seeds[which == 1][:1])
    first = int((which == 1).nonzero()[0])
    shown = alone.reset()["blue", "observation", "ego"][0]
    assert torch.equal(shown, env.last_observation()["blue", "observation", "ego"][first]), "as in its own batch"


def test_positions_are_drawn_by_weight_and_equal_weights_change_nothing():
    both = [duel(14), duel(8)]
    drawn = {
        weights: echelon.scene(both, 2, "cpu", weights, seed=0).map_pool.active for weights in ((1, 1), (5, 5), (6, 2))
    }
    assert [one.tolist() for one in drawn.values()] == [[0, 1], [0, 1], [0, 0, 0, 1]]
    env = echelon.scene(both, 400, "cpu", (6, 2), seed=0)
    assert 0.2 < float(env.state.map_id.float().mean()) < 0.3
    assert drawn_positions((Position(()), Position((), weight=3))) == [0, 1, 1, 1]
    with pytest.raises(ConfigError, match=r"^weights must be 2 numbers, one per scenario, got \[1\]$"):
        echelon.scene_config(both, [1])
    with pytest.raises(ConfigError, match=r"^Position.weight must be 1..100 times as often"):
        echelon.scene_config(both, [0, 1])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            duel(comm_dim=4),
            r"^scenarios of one batch must have one shape: settings.comm_dim is 8 here and 4 there, in sc",
        ),
        (
            duel(rules=echelon.RulesConfig(rear_factor=9.0)),
            r": settings.rules.rear_factor is 1.5 here and 9.0 there",
        ),
    ],
)
def test_scenarios_of_different_shape_raise_with_the_difference(other, said):
    with pytest.raises(ConfigError, match=said):
        echelon.scene_config([duel(), other])


def test_config_stores_the_positions():
    config = echelon.scene_config([duel(14), duel(8)])
    signature = config.signature()
    assert env_from_json(signature) == config and config.title == "1v1 on 40x40x16 from 2 positions"
    assert "positions" not in EnvConfig.small().signature() and config.is_unequal
    assert torch.equal(
        echelon.EchelonEnv(config, 4, "cpu", seed=1).state.mechs.pos,
        echelon.scene([duel(14), duel(8)], 4, "cpu", seed=1).state.mechs.pos,
    )
    for other, said in (
        (echelon.scene_config([duel(14), duel(9)]), "env.positions[1].units[0].x is 8 here and 9 there"),
        (duel(14).config, "env.map_pool is 2 here and 1 there"),
        (dataclasses.replace(duel(14).config, map_pool=2), "env.positions are 2 here and 1 there"),
        (dataclasses.replace(config, positions=()), "env.positions are 2 here and 0 there"),
    ):
        assert battle_difference(signature, other.signature()) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"positions": 3}, "env.positions must be a list, got 3"),
        ({"positions": [{"boxes": []}]}, "env.positions[0] must be complete: this Position lacks units"),
        ({"positions": [{"units": []}]}, "Scenario.units of blue must be 1..20, got 0"),
        ({"positions": [{"weight": 1e9}]}, "env.positions[0].weight must be a int, got 1000000000.0"),
        (
            {"positions": [{"units": [], "import": "os"}]},
            "env.positions[0].import must be one of units, boxes, zone, objective, weight",
        ),
        ({"blue": ["light"]}, "blue of EnvConfig.positions[0] must be light, the mechs of the battle, got 'medium'"),
        ({"map_spares": 1}, "EnvConfig.map_spares must be 0 with authored positions, got 1"),
    ],
)
def test_invalid_positions_raise_one_line(change, said):
    with pytest.raises(ConfigError) as raised:
        env_from_json({**duel().config.signature(), **change})
    assert str(raised.value).startswith(said)


def test_memory_check_counts_each_position():
    """The pool settings of a user's file do not matter."""
    scenario = duel(world=echelon.WorldConfig(500, 500, 31))
    config = dataclasses.replace(scenario.config, positions=(scenario.position,) * 1000)
    assert config.map_pool == 1 and config.num_maps == 1000
    with pytest.raises(ConfigError, match=r"EnvConfig.positions"):
        require_memory(config, 1, torch.device("cpu"))


def test_maps_of_other_positions_raise():
    maps = echelon.scene(duel(), 1, "cpu").sim_model.maps
    with pytest.raises(ConfigError, match=r"^maps must be 2, one per position of the config, got 1$"):
        echelon.EchelonEnv(echelon.scene_config([duel(14), duel(8)]), 1, "cpu", maps=maps)
