"""Battles that start from a given position."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import echelon
from echelon import Box, EnvConfig, Scenario, Scene, Unit
from echelon.rules.physics import RulesConfig
from echelon.rules.scenario import read_scenario, scenario_from_json
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def duel() -> Scene:
    """Return a medium behind a wall, and a hot, damaged heavy that faces it."""
    scene = Scene().wall((19, 10), (21, 30), height=4)
    return scene.place("blue", "medium", at=(12, 20)).place(
        "red", "heavy", at=(30, 20.5), facing_deg=180, hp=0.25, leg_hp=0.0, heat=0.5
    )


def test_battles_and_restarts_start_from_the_position():
    env = duel().env(3, "cpu", seed=0)
    for _ in range(2):
        mechs = env.state.mechs
        assert mechs.pos.tolist() == [[[12.0, 20.0, 1.5], [30.0, 20.5, 2.0]]] * 3
        assert mechs.yaw[:, 0].tolist() == [0.0] * 3 and mechs.yaw[0, 1].abs() == pytest.approx(math.pi)
        heavy = env.config.catalog.hulls["heavy"]
        assert mechs.hp[0].tolist() == [env.sim_model.roster.hp[0].item(), heavy.hp / 4]
        assert mechs.legged[0].tolist() == [False, True] and mechs.heat[0].tolist() == [0.0, heavy.heat_cap / 2]
        assert env.sim_model.maps.zone_center.tolist() == [
            [20.5, 20.5]
        ] and env.sim_model.maps.zone_radius.tolist() == [7.5]
        env.rollout(4)
        env.reset()
    assert env.sim_model.maps.solid[0, 15, 19] == 0b1111 and env.sim_model.maps.solid[0, 15, 21] == 0
    shown = env.reset()["red", "observation", "ego"]
    assert torch.equal(shown[0], shown[2]), "the same position"


def test_randomness_depends_on_the_seed_only():
    """64 seeds of one position: each battle depends on its seed only, not on its neighbours."""

    def last(seeds):
        env = duel().env(len(seeds), "cpu", seed=torch.tensor(seeds))
        td, generator = env.reset(), torch.Generator().manual_seed(0)
        for _ in range(12):
            for group in ("blue", "red"):
                action = torch.rand((1, 1, 26), generator=generator).expand(len(seeds), 1, 26)
                td[group, "action"] = action * 2 - 1
            td = env.step_mdp(env.step(td))
        return env.state.mechs.heat, env.state.mechs.pos

    both, alone = last([5, 6]), last([6])
    assert torch.equal(both[0][1], alone[0][0]) and torch.equal(both[1][1], alone[1][0])


def test_loops_and_dense_form_agree_in_a_scenario():
    first, second = (duel().env(2, "cpu", seed=3, backend=backend) for backend in ("eager", "loops"))
    one, other = first.reset(), second.reset()
    for _ in range(6):
        one, other = first.rand_action(one), other
        for group in ("blue", "red"):
            other[group, "action"] = one[group, "action"].clone()
        one, other = first.step_mdp(first.step(one)), second.step_mdp(second.step(other))
        assert torch.equal(first.state.mechs.pos, second.state.mechs.pos)
        assert torch.equal(one["blue", "observation", "contacts"], other["blue", "observation", "contacts"])


def test_initial_cooldowns_count_down(tmp_path):
    """Seconds per weapon become substeps of its timer, the longer ones if two weapons share it; a file stores them."""
    scene = Scene().place("blue", "heavy", at=(12, 20), cooldown_s={"missile": np.float32(2), "ams": 0.3})
    scene.place("red", "medium", at=(30, 20), facing_deg=180)
    env, rules = scene.env(2, "cpu", seed=0), scene.settings.rules
    timers = [*scene.settings.catalog.timer_names, "ams"]
    assert timers.index("missile") == 1
    left = [rules.substeps({"missile": 2.0, "ams": 0.3}.get(name, 0)) for name in timers]
    assert env.state.mechs.cooldown[:, 0].tolist() == [left] * 2 and env.state.mechs.cooldown[:, 1].sum() == 0
    after = env.step(env.rand_action(env.reset()))
    assert after["next", "done"].sum() == 0
    assert env.state.mechs.cooldown[0, 0, 1] == left[1] - rules.decision_repeat, "it counts down as usual"
    scene.scenario.save(tmp_path / "it.json")
    assert read_scenario(tmp_path / "it.json") == scene.scenario
    for left, said in (
        ({"flamer": 1}, r"^cooldown_s of blue_0 must be keyed by weapons of a heavy: .*, got 'flamer'$"),
        ({"missile": 99}, r"^missile of cooldown_s of blue_0 must be 0..\S+ s, got 99$"),
        ({"missile": float("nan")}, r"^missile of cooldown_s of blue_0 must be 0..\S+ s, got nan$"),
    ):
        with pytest.raises(ConfigError, match=said):
            Scene().place("blue", "heavy", (12, 20), cooldown_s=left).place("red", "light", (30, 20)).env(1, "cpu")


def test_mechs_stand_on_the_terrain_below():
    scene = Scene().wall((10, 10), (16, 16), 3).wall((20, 10), (26, 16), 6, bottom=5)
    scene.place("blue", "light", at=(13, 13)).place("red", "light", at=(23, 13)).place(
        "red", "light", (23, 12.9), bottom=0
    )
    pos = scene.env(1, "cpu").state.mechs.pos[0]
    assert pos[:, 2].tolist() == [3.0 + 1.0, 6.0 + 1.0, 1.0], "on a block, on a roof, and below it"


def test_views_work_with_a_scenario():
    scenario = duel().scenario
    env = echelon.versus(scenario.config, "heuristic:hard", 2, side="blue", device="cpu")
    assert env.rollout(2).shape == (2, 2)


def test_file_stores_differences_and_restores_the_battle(tmp_path):
    rules = dataclasses.replace(RulesConfig(), max_episode_s=20.0)
    base = dataclasses.replace(EnvConfig.small(), rules=rules, comm_dim=4)
    scene = Scene(base, zone=(12, 20, 5)).place("blue", "scout", (10, 10)).place("red", "light", (30, 30), heat=0.25)
    scenario = scene.wall((5, 5), (6, 9), 2, "glass").scenario
    scenario.save(tmp_path / "duel.json")
    assert json.loads((tmp_path / "duel.json").read_text()) == {
        "preset": "small",
        "comm_dim": 4,
        "rules": {"max_episode_s": 20.0},
        "zone": [12, 20, 5],
        "boxes": [{"low": [5, 5, 0], "high": [6, 9, 2], "material": "glass"}],
        "units": [
            {"team": "blue", "hull": "scout", "x": 10, "y": 10},
            {"team": "red", "hull": "light", "x": 30, "y": 30, "heat": 0.25},
        ],
    }
    assert read_scenario(tmp_path / "duel.json") == scenario
    assert echelon.scene(tmp_path / "duel.json", 2, "cpu").config == scenario.config
    own = dataclasses.replace(base, catalog=dataclasses.replace(base.catalog, paint_s=4.0))
    with pytest.raises(ConfigError, match="catalog of a scenario file must be the newest one"):
        dataclasses.replace(scenario, settings=own).save(tmp_path / "own.json")
    assert not (tmp_path / "own.json").exists()


def test_integers_are_read_from_any_json_form(tmp_path):
    told = {
        **duel().scenario.as_json(),
        "zone": [20, 20, 5],
        "comm_dim": 4,
        "objective": {"kind": "hold", "seconds": 30},
    }
    texts = [
        json.dumps(told),
        re.sub(r"(?<![\w.\"])\d+(?![\w.\"])", lambda found: found.group() + ".0", json.dumps(told)),
    ]
    read = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        read.append(read_scenario(path))
    assert texts[0] != texts[1] and 'comm_dim": 4.0' in texts[1]
    assert json.dumps(read[0].as_json()) == json.dumps(read[1].as_json())
    assert json.dumps(read[0].config.signature()) == json.dumps(read[1].config.signature())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"units": 3}, r"^duel.json.units must be a list, got 3$"),
        ({"units": []}, r"^duel.json: Scenario.units of blue must be 1..20, got 0$"),
        (
            {"units": [{"team": "blue", "hull": "scout", "x": 1}]},
            r"^duel.json.units\[0\]: Unit.x and Unit.y must be 0..500",
        ),
        (
            {"units": [{"team": "green", "hull": "scout", "x": 1, "y": 1}]},
            r"^duel.json.units\[0\]: Unit.team must be one of 'blue', 'red', got",
        ),
        (
            {"boxes": [{"low": [0, 0, 0], "high": [1, 1, 17]}]},
            r"^duel.json: Box.high must be within the map of \(40, 40, 16\) vox",
        ),
        (
            {"boxes": [{"low": [0, 0, 0], "high": [1, 0, 1]}]},
            r"^duel.json.boxes\[0\]: Box.high must be above \(0, 0, 0\) in x, y and z",
        ),
        (
            {"boxes": [{"low": [0, 0], "high": [1, 1, 1]}]},
            r"^duel.json.boxes\[0\]: Box.low and Box.high must be x, y, z",
        ),
        (
            {"boxes": [{"low": [0, 0, 0], "high": [1, 1, 1], "material": "cheese"}]},
            r"^duel.json.boxes\[0\]: Box.material must be one of air, ",
        ),
        (
            {"boxes": [{"low": [0, 0, 0], "high": [10**9, 1, 1]}]},
            r"^duel.json.boxes\[0\]: Box.high must be 0..500 vox, got 1000000000$",
        ),
        ({"zone": [20, 20]}, r"^duel.json: Scenario.zone must be x, y, radius, got \(20.0, 20.0\)$"),
        ({"zone": [20, 20, 30.0]}, r"^duel.json: radius of Scenario.zone must be 1..20 vox, within the map, got 30.0$"),
        ({"world": {"size_x": 10**9}}, r"^duel.json: WorldConfig.size_x must be 32..500 vox"),
        ({"preset": "../small"}, r"^duel.json.preset must be one of small, standard, large, got '../small'$"),
        (
            {"gravity": 1},
            r"^duel.json.gravity must be one of preset, units, .*, world, .*, split, got 'gravity'$",
        ),
        ({"blue": ["scout"]}, r"^duel.json.blue must be absent: units determine the rosters, on one map, got"),
    ],
)
def test_invalid_file_raises_one_line(tmp_path, change, said):
    path = tmp_path / "duel.json"
    path.write_text(json.dumps({**duel().scenario.as_json(), **change}))
    with pytest.raises(ConfigError, match=said) as raised:
        read_scenario(path)
    assert "\n" not in str(raised.value)


def test_nan_and_infinity_raise(tmp_path):
    path = tmp_path / "duel.json"
    path.write_text('{"units": [{"team": "blue", "hull": "scout", "x": NaN, "y": 1}]}')
    with pytest.raises((ConfigError, FileError), match=r"NaN|finite"):
        read_scenario(path)
    with pytest.raises(ConfigError, match=r"^Unit.x must be a finite number, got nan$"):
        Unit("blue", "scout", float("nan"), 1)


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (Unit("blue", "medium", 20, 20, bottom=1), r"^scenario: state.mechs.pos of blue_1 .* clear of solid terrain"),
        (Unit("blue", "medium", 30, 21), r"^scenario: state.mechs.pos of blue_1 .* clear of the hull of red_0"),
        (Unit("red", "medium", 39.5, 21), r"^scenario: x of red_1 \(medium\) must be 1.25..38.75 vox, with the hull"),
        (Unit("red", "scout", 20, 36, bottom=15), r"^scenario: state.mechs.pos of red_1"),
    ],
)
def test_mech_in_an_invalid_place_is_named(unit, said):
    scenario = duel().scenario
    with pytest.raises(ConfigError, match=said):
        echelon.scene(dataclasses.replace(scenario, units=(*scenario.units, unit)), device="cpu")


UNITS = st.builds(
    Unit,
    st.sampled_from(["blue", "red"]),
    st.sampled_from(["scout", "light", "medium", "heavy"]),
    st.floats(2, 38, width=32),
    st.floats(2, 38, width=32),
    facing_deg=st.floats(-360, 360, width=32),
    hp=st.floats(0.0625, 1, width=32),
    leg_hp=st.floats(0, 1, width=32),
    heat=st.floats(0, 2, width=32),
)
BOXES = st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(1, 9)] * 3).map(
    lambda n: Box((n[0], n[1], 0), (n[0] + n[2], n[1] + n[3], n[4]))
)


@settings(max_examples=25, deadline=None)
@given(st.lists(UNITS, min_size=2, max_size=6), st.lists(BOXES, max_size=4))
def test_valid_values_round_trip_and_play(units, boxes):
    """For any units and boxes: one error line, or a file that restores the scenario, and a playable battle."""
    try:
        scenario = Scenario(tuple(units), tuple(boxes))
        env = echelon.scene(scenario, 2, "cpu", seed=0)
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    assert scenario_from_json(json.loads(json.dumps(scenario.as_json()))) == scenario
    env.rollout(2)
    assert env.state.mechs.pos.isfinite().all()
