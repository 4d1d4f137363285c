"""Each feature switched off: its effect is absent, and shapes do not change."""

import dataclasses

import pytest
import torch
from builders import arena, battle, told
from first_catalog import SMALL, Timer, Weapon
from reading import ECM, WALL, column, comrade, contact, ego, emits, look, sensed, shown, team

from echelon.rules.actions import CONTROLS, NO_MECH, Act
from echelon.rules.catalog import Material
from echelon.rules.config import FeaturesConfig

FEATURES = tuple(field.name for field in dataclasses.fields(FeaturesConfig))


def off(config, *names):
    return dataclasses.replace(config, features=FeaturesConfig(**dict.fromkeys(names, False)))


def test_all_features_are_on_by_default():
    assert FEATURES == ("ewar", "comms", "target_preference", "observation_control", "suites", "smoke", "destruction")
    assert all(getattr(FeaturesConfig(), name) for name in FEATURES)


@pytest.mark.parametrize("command_suites", [False, True])
@pytest.mark.parametrize("name", FEATURES)
def test_no_shape_changes(name, command_suites):
    config = dataclasses.replace(SMALL, command_suites=command_suites)
    one, other = arena(config), arena(off(config, name))
    for spec in ("observation_spec", "action_spec", "reward_spec", "done_spec"):
        assert getattr(one, spec) == getattr(other, spec), spec


def test_battle_without_any_feature_runs():
    env = arena(off(SMALL, *FEATURES))
    td = env.rollout(4)
    assert td["blue", "observation", "ego"].isfinite().all() and (env.state.tick == 20).all()


# One by one


@pytest.mark.parametrize("on", [True, False])
def test_ewar(on):
    s = team(("medium",), ("scout",), WALL, features={"ewar": on}).place(0, 10.5, 20.5).place(1, 35.5, 20.5)
    jams = emits(1, ECM)
    assert ego(s, "jam", 0, jams)[0] == pytest.approx(0.5 if on else 0, abs=1e-3)
    assert ego(s, "ecm", 1, jams) == [float(on)]
    assert shown(s, 0, jams) == ([1] if on else [])  # no bloom
    s.set(1, heat=20).run(s.orders(jams))
    assert s.value("heat", 1) == pytest.approx(20 + (3 * 0.05 if on else 0) - 13 * 0.05)


@pytest.mark.parametrize("on", [True, False])
def test_comms(on):
    env = arena(SMALL if on else off(SMALL, "comms"))
    _, td = env.step_and_maybe_reset(told(env, env.reset(), (1, CONTROLS, 1.0), (6, CONTROLS, 1.0)))
    for group in ("blue", "red"):
        assert td[group, "observation", "comms"].any() == on
    assert env.state.messages.any() == on


@pytest.mark.parametrize(("on", "hit"), [(True, 2), (False, 1)])
def test_target_preference(on, hit):
    """Red 1 at 4 vox, red 2 at 6; blue prefers the second contact."""
    config = battle(("medium",), ("medium", "medium"), target_preference=on).sim_model.config
    env = arena(config)
    td = env.reset()
    for mech, x, y in ((0, 10.5, 20.5), (1, 14.5, 20.5), (2, 16.5, 24.0)):
        env.state.mechs.pos[:, mech] = torch.tensor([x, y, 1.5])
    env.state.mechs.yaw[:] = 0
    env.state.focus_slots[:, 0] = torch.tensor([1, 2] + [NO_MECH] * 3)
    env.step(told(env, td, (0, Act.PRIMARY, 1.0), (0, Act.PREFER_1, 1.0)))
    assert [n for n in (1, 2) if env.state.mechs.hp[0, n] < 150] == [hit]


@pytest.mark.parametrize("on", [True, False])
def test_observation_control(on):
    s = team(("medium", "medium"), ("scout", "heavy"), features={"observation_control": on})
    s.place(0, 10, 10).place(1, 10, 12).place(2, 10, 18).place(3, 10, 25)
    orders = (0, Act.SORT_BIGGEST, 1.0), (0, Act.HOSTILE_ONLY, 1.0)
    assert shown(s, 0, *orders) == ([3, 2] if on else [2, 3, 1])
    assert ego(s, "sort_mode", 0, *orders) == ([0, 1, 0] if on else [1, 0, 0])
    assert ego(s, "hostile_only", 0, *orders) == [float(on)]


def test_without_suites_contacts_are_unlimited_and_without_intel():
    s = team(("heavy", "scout"), ("scout",) * 8, WALL, features={"suites": False}, sight_range_vox=25.0)
    s.place(0, 5, 20.5).place(1, 38, 20.5)
    for k in range(8):
        s.place(2 + k, 5, 22 + k)
    assert sensed(s, 0) == shown(s, 0) == [2, 3, 4, 5, 6, 7, 8, 9]  # its suite has five slots
    s.place(9, 30, 20.5)
    assert 9 in shown(s, 1) and 9 not in shown(s, 0)  # its packmate senses it, but does not report it
    assert not any(column(s, "intel", 0))
    assert contact(s, "detail") == [1]
    assert ego(s, "suite") == [0] * 14
    assert comrade(s, "readiness", 0) == [1] and comrade(s, "hp", 0) == [1]


@pytest.mark.parametrize("hull", ["scout", "light", "medium", "heavy"])
def test_without_suites_every_radar_has_the_base_range(hull):
    s = team((hull,), (hull,), WALL, features={"suites": False}).place(0, 10.5, 20.5)
    assert shown(s.place(1, 24.49, 20.5), 0) == [1]
    assert shown(s.place(1, 24.51, 20.5), 0) == []


@pytest.mark.parametrize("on", [True, False])
def test_smoke(on):
    s = battle(("medium",), ("medium",), smoke=on).place(0, 10.5, 20.5).place(1, 35.5, 20.5)
    s.run(s.orders((0, Act.SPECIAL, 1.0)))
    fired = s.counted("shots", 0, Weapon.SMOKE)
    assert (fired, s.shot(Weapon.SMOKE, 0)[2] > 0) == (float(on), on)
    assert s.state.mechs.cooldown[0, 0, Timer.MISSILE].item() == (100 if on else 0)
    assert s.value("heat", 0) == pytest.approx(10 if on else 0)
    s.wait(27)
    assert len(s.clouds(0)) == on


@pytest.mark.parametrize("on", [True, False])
def test_cloud_hides_only_if_smoke_is_on(on):
    s = battle(("medium",), ("medium",), smoke=on).place(0, 10.5, 20.5).place(1, 35.5, 20.5).smoke(0, 20, 20.5, 1.5)
    assert shown(s, 0) == ([] if on else [1])


@pytest.mark.parametrize("on", [True, False])
def test_destruction(on):
    glass, leaves = (13, 14, 20, 21, 1, 2, Material.GLASS), (17, 18, 30, 31, 1, 2, Material.FOLIAGE)
    s = battle(("medium",), ("medium",), glass, leaves, destruction=on).place(0, 10.5, 20.5).place(1, 30, 10)
    before = s.state.terrain.clone()
    for which in (0, 1):
        s.throw(Weapon.AUTOCANNON, 0, (12, 20.5, 1.5), (25, 0, 0), which=which)
    s.throw(Weapon.AUTOCANNON, 0, (16.5, 30.5, 1.5), (25, 0, 0), which=2).set(1, hp=0).wait(3, wreck=0.0)
    same = all(torch.equal(getattr(s.state.terrain, name), getattr(before, name)) for name in ("solid", "opaque"))
    assert same == (not on)
    broken, torn = s.material(13, 20, 1) == Material.AIR, not s.blocks(17, 30, 1)[1]
    wrecked = s.material(30, 10, 0) == Material.SOLID_DEBRIS
    assert (broken, torn, wrecked) == (on, on, on)
    assert look(s)["local_map"][0, 0, 8, 5] == (not on)
