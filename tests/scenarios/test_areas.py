"""Mechs that spawn in an area: valid places, drawn by seed, in both forms of a decision."""

import dataclasses
import itertools
import json

import pytest
import torch
from host_reads import HostReads

import echelon
from echelon import EchelonEnv, EnvConfig, Scene
from echelon.env.edited_states import check_edited
from echelon.env.observation.build import initial_observation
from echelon.env.restart import reset_by_mask
from echelon.env.static_battles import StaticBattles
from echelon.rules.scenario import read_scenario, scenario_from_json
from echelon.runtime import jit
from echelon.runtime.errors import ConfigError

WEST, EAST = (2, 8, 12, 32), (27, 8, 38, 32)
SHORT = dataclasses.replace(EnvConfig.small(), rules=echelon.RulesConfig(max_episode_s=1.0))


def melee(settings: EnvConfig = SHORT, **facts) -> Scene:
    """Three against three: two blue mechs in an area crossed by a wall, beside one with a fixed place."""
    scene = Scene(settings).wall((4, 14), (9, 16), 5).place("blue", "medium", at=(7, 20))
    for hull in ("heavy", "scout"):
        scene.place("blue", hull, area=WEST, **facts)
    for hull in ("light", "medium", "heavy"):
        scene.place("red", hull, area=EAST, facing_deg=180, **facts)
    return scene


@pytest.mark.parametrize("bottom", [-1.0, 0.0])
def test_every_battle_draws_valid_places(bottom):
    env = melee(bottom=bottom).env(256, "cpu", seed=0)
    names, pos = [name for group in env.group_map.values() for name in group], env.state.mechs.pos
    check_edited(env.state, list(range(256)), names, env.sim_model)
    assert (pos[:, 0] == pos[0, 0]).all(), "a fixed mech keeps its place"
    for mechs, (low_x, low_y, high_x, high_y) in ((pos[:, 1:3], WEST), (pos[:, 3:], EAST)):
        x, y, z = mechs.unbind(-1)
        assert (x >= low_x).all() and (x <= high_x).all() and (y >= low_y).all() and (y <= high_y).all()
        assert (z < 5).all(), "no mech is on top of the wall, which is too narrow"
    assert len({tuple(battle) for battle in pos.flatten(1).tolist()}) == 256
    assert pos[:, 3, 0].unique().numel() == 11, "all columns of the area"


def test_place_depends_on_the_seed_only():
    env = melee().env(16, "cpu", seed=0)
    seeds = env.state.seed
    alone = melee().env(1, "cpu", seed=seeds[5:6])
    assert torch.equal(alone.state.mechs.pos[0], env.state.mechs.pos[5])
    assert torch.equal(alone.reset()["red", "observation", "ego"][0], env.reset()["red", "observation", "ego"][5])


def read(values):
    try:
        return scenario_from_json(values, "it.json")
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith("it.json") else f"it.json: {error}") from None


def leaves(td):
    return {key: value.numpy().tobytes() for key, value in td.items(True, True)}


def assert_same_battles(first, second, decisions=9):
    """Compare all observations and states over two restarts of each battle."""
    one, other = first.reset(), second.reset()
    assert leaves(one) == leaves(other)
    seen = [first.state.mechs.pos[:, 3].clone()]
    for _ in range(decisions):
        one = first.rand_action(one)
        for group in first.group_map:
            other[group, "action"] = one[group, "action"].clone()
        (ended, one), (also, other) = first.step_and_maybe_reset(one), second.step_and_maybe_reset(other)
        assert leaves(ended) == leaves(also) and leaves(one) == leaves(other)
        assert leaves(first.state.to_tensordict()) == leaves(second.state.to_tensordict())
        if ended["next", "done"].any():
            seen.append(first.state.mechs.pos[:, 3].clone())
    assert len(seen) == 3 and not any(torch.equal(*pair) for pair in itertools.pairwise(seen))


@pytest.mark.parametrize("form", ["eager", *["loops"] * jit.HAS_LOOPS])
@pytest.mark.parametrize("by_row", [True, False])
def test_restarts_with_areas_are_equal_in_every_form(form, by_row):
    """Dense form and loops, restarted by row, and by mask as on a GPU."""
    first, second = (melee().env(5, "cpu", seed=3, backend=backend) for backend in ("eager", form))
    second.restarts_by_row = by_row
    assert_same_battles(first, second)


def test_static_battles_with_areas_observe_the_same():
    """Play as in a captured decision on a GPU."""
    called, static = (melee().env(4, "cpu", seed=3, backend="eager") for _ in range(2))
    observation = called.reset()
    battles = StaticBattles(static, static.reset())
    for _ in range(5):
        observation = called.rand_action(observation)
        decided = battles.current.copy()
        for group in called.group_map:
            decided[group, "action"] = observation[group, "action"].clone()
        _, observation = called.step_and_maybe_reset(observation)
        battles.restart(battles.step(decided))
        ours, theirs = leaves(observation), leaves(battles.current)
        assert all(ours[key] == value for key, value in theirs.items())
        assert leaves(called.state.to_tensordict()) == leaves(static.state.to_tensordict())


@pytest.mark.long
def test_reset_with_areas_is_one_graph():
    """As compiled for a GPU: without a host read, with the same battles."""
    env = melee().env(3, "cpu", seed=3, backend="eager")
    observation, which = env.reset(), torch.tensor([True, False, True])
    there = (which, env.next_seed, env.state, {key: observation.get(key) for key in env._renewed}, *env._map_source)
    graph, look = (torch.compile(one, backend="eager", fullgraph=True) for one in (reset_by_mask, initial_observation))
    found, wanted = graph(*there), reset_by_mask(*there)
    assert torch.equal(found.state.mechs.pos, wanted.state.mechs.pos)
    assert not torch.equal(found.state.mechs.pos, env.state.mechs.pos)
    streams, expected = look(wanted.fresh, env.sim_model)[1], initial_observation(wanted.fresh, env.sim_model)[1]
    # A traced graph, executed by torch operators, uses their square root, which may differ in the last bit.
    assert streams.keys() == expected.keys()
    assert all(torch.allclose(streams[name], values, rtol=0, atol=1e-6) for name, values in expected.items())


def test_scenario_file_stores_areas(tmp_path):
    scenario = melee().scenario
    scenario.save(tmp_path / "it.json")
    assert read_scenario(tmp_path / "it.json") == scenario
    unit = {"team": "blue", "hull": "heavy", "area": [2, 8, 12, 32]}
    assert json.loads((tmp_path / "it.json").read_text())["units"][1] == unit
    assert "area" not in scenario.config.signature()["positions"][0]["units"][0], "absent in older files too"
    other = Scene(SHORT).place("blue", "medium", (7, 20)).place("red", "light", area=EAST).scenario
    still = Scene(SHORT).place("blue", "medium", (9, 20)).place("red", "light", (30, 20)).scenario
    both = echelon.scene([other, still], 64, "cpu", seed=0)
    at = both.state.mechs.pos[:, 1, :2]
    assert (at[both.state.map_id == 1] == torch.tensor([30.0, 20.0])).all()
    assert at[both.state.map_id == 0].unique(dim=0).shape[0] > 20


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ({"area": [1, 2, 3]}, r"^it.json.units\[0\]: Unit.area must be x, y, x, y of two corners, got"),
        ({"area": [8, 8, 4, 12]}, r"^it.json.units\[0\]: Unit.area must be lower corner, upper corner, got"),
        (
            {"area": [1, 1, 4, 9], "x": 3, "y": 3},
            r"^it.json.units\[0\]: Unit.x and Unit.y must be absent if area is set",
        ),
        ({"area": [1, 1, 400, 9]}, r"^it.json: area of blue_0 must be within the map of \(40, 40, 16\) vox"),
        ({"x": 3}, r"^it.json.units\[0\]: Unit.x and Unit.y must be 0..500 vox, or an area instead, got \(3.0, -1.0\)"),
    ],
)
def test_invalid_area_raises_one_line(unit, said):
    values = {"units": [{"team": "blue", "hull": "heavy", **unit}, {"team": "red", "hull": "light", "x": 30, "y": 30}]}
    with pytest.raises(ConfigError, match=said):
        read(values)


@pytest.mark.parametrize(
    ("area", "said"),
    [
        ((17, 17, 20, 20), r"^scenario: area of blue_0 must be an area with room for a heavy on level ground, got"),
        (
            (2, 2, 6, 6),
            r"^scenario: area of blue_1 in battle 0 must be larger: more places than other mechs may block, got 16$",
        ),
    ],
)
def test_area_without_room_raises_with_the_mech_name(area, said):
    scene = Scene().wall((18, 18), (19, 22), 3).place("red", "light", (35, 35))
    for hull in ("heavy", "heavy"):
        scene.place("blue", hull, area=area)
    with pytest.raises(ConfigError, match=said):
        scene.env(1, "cpu")


@pytest.mark.parametrize("name", ["areas", "hold-5v5", "king-of-two-5v5"])
def test_decision_in_a_scenario_reads_nothing_on_the_host(name, monkeypatch):
    """Test the form for a GPU, with restarts."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    config = melee().scenario.config if name == "areas" else echelon.scene_config([name])
    env = EchelonEnv(config, 2, "cpu", seed=0, backend="eager")
    now, action = env.reset(), env.action_spec.rand()
    with torch.inference_mode(), HostReads() as counted:
        for _ in range(2):
            _, now = env.step_and_maybe_reset(now.update(action))
    assert not counted.reads
