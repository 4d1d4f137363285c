"""A mech's observation of its comrades."""

import dataclasses
import math

import pytest
from builders import scene
from first_catalog import STANDARD, Timer
from reading import comrade, look, team

from echelon.env.observation import layout
from echelon.env.observation.layout import SQUAD

pytestmark = pytest.mark.quick

ROWS = [f.name for f in SQUAD]


def watch(hull, command=False, **features):
    """Blue 0 of `hull` faces +y at (10, 10); its packmate, medium 1, is damaged; a red heavy is at (10, 30)."""
    s = team((hull, "medium"), ("heavy",), command_suites=command, features=features)
    s.place(0, 10, 10, yaw=math.pi / 2).place(1, 14, 18, bottom=2.0).place(2, 10, 30)
    s.set(1, hp=75, heat=25, stability=40)
    s.state.mechs.cooldown[:, 1, Timer.LASER] = 3
    return s


def told(s, row=0, viewer=0, focus=None):
    """Return the nonzero features of a comrade's row, without class and position."""
    values = {name: comrade(s, name, row, viewer, focus=focus) for name in ROWS if name not in ("rel_pos", "hull")}
    return {name: value[0] if len(value) == 1 else value for name, value in values.items() if any(value)}


def test_every_suite_shows_position_and_class_of_comrades():
    s = watch("heavy")
    up = (2 + 1.5 - 2.0) / 40  # a medium's centre is 1.5 above its feet, a heavy's 2
    assert comrade(s, "rel_pos", 0) == pytest.approx([8 / 40, -4 / 40, up], abs=1e-6)  # ahead +y, +x to the right
    assert comrade(s, "hull", 0) == [0, 0, 1, 0]


WORN = {"hp": 0.5, "heat": 0.25}
READY = {"stability": 0.4, "readiness": 0.75}  # laser, autocannon, painter and smoke: three of four are ready


@pytest.mark.parametrize(
    ("hull", "command", "tells"),
    [
        ("heavy", False, {}),
        ("scout", False, {}),
        ("medium", False, WORN),
        ("light", False, WORN),
        ("light", True, {**WORN, **READY}),  # pack command
        ("medium", True, {**WORN, **READY}),  # squad command
    ],
)
def test_suite_decides_the_squad_detail(hull, command, tells):
    assert told(watch(hull, command)) == pytest.approx({"alive": 1, **tells})


def test_without_suites_everything_but_the_target_is_shown():
    assert told(watch("heavy", suites=False), focus={1: 2}) == pytest.approx({"alive": 1, **WORN, **READY})


@pytest.mark.parametrize(("hull", "command", "sees"), [("light", True, True), ("light", False, False)])
def test_commanders_see_targets_of_comrades(hull, command, sees):
    s = watch(hull, command)
    up = (2.0 - 1.0) / 40  # a heavy's centre over a light's
    wanted = [20 / 40, 0, up] if sees else [0, 0, 0]
    assert comrade(s, "target_rel_pos", 0, focus={1: 2}) == pytest.approx(wanted, abs=1e-6)
    assert comrade(s, "target_rel_pos", 0) == [0, 0, 0]  # without a focus target
    assert comrade(s.set(2, hp=0), "target_rel_pos", 0, focus={1: 2}) == [0, 0, 0]  # the target is dead


@pytest.mark.parametrize("command", [False, True])
def test_dead_comrade_keeps_position_with_alive_0(command):
    s = watch("light", command).set(1, hp=0)
    assert told(s, focus={1: 2}) == {}
    assert comrade(s, "rel_pos", 0)[:2] == pytest.approx([8 / 40, -4 / 40], abs=1e-6)
    assert comrade(s, "hull", 0) == [0, 0, 1, 0] and look(s)["squad_mask"][0, 0].nonzero().tolist() == [[0]]


def test_dead_mech_observes_no_comrades():
    streams = look(watch("light", True).set(0, hp=0))
    assert not streams["squad"][0, 0].any() and not streams["squad_mask"][0, 0].any()
    assert streams["squad_mask"][0, 1].tolist() == [True] + [False] * 11


@pytest.mark.parametrize(
    ("trouble", "readiness"), [({}, 0.75), ({"heat": 101}, 0), ({"fallen": 5}, 0), ({"suppressed": 9}, 0.75)]
)
def test_mech_not_running_has_readiness_0(trouble, readiness):
    assert comrade(watch("light", True).set(1, **trouble), "readiness", 0) == pytest.approx([readiness])


def test_weapons_sharing_a_timer_are_ready_together():
    s = team(("light", "heavy"), ("heavy",), command_suites=True)
    s.state.mechs.cooldown[:, 1, Timer.MISSILE] = 3
    assert comrade(s, "readiness", 0) == [0.5]  # laser and gauss; neither missile nor smoke


def test_squad_slots_are_packmates_by_index_then_the_next_comrade():
    streams = look(scene(STANDARD))
    assert streams["squad"].shape == (1, 20, 5, layout.width(SQUAD)) and streams["squad_mask"].all()
    hulls = streams["squad"][0, :, :, layout.columns(SQUAD, "hull")].argmax(-1)  # scout 0 .. heavy 3
    assert hulls[0].tolist() == [2, 2, 1, 0, 3]  # the heavy's medium, medium, light, scout, and the other heavy
    assert hulls[14].tolist() == [3, 2, 2, 1, 3]  # for red's first scout


def test_squad_commander_sees_all_comrades():
    streams = look(scene(dataclasses.replace(STANDARD, command_suites=True)))
    assert streams["squad"].shape == (1, 20, 12, layout.width(SQUAD))
    held = streams["squad_mask"][0].sum(-1)
    assert held.tolist() == [5, 9, 5, 5, 5, 5, 5, 5, 5, 5] * 2  # the first pack's first medium commands the squad
    assert not streams["squad"][~streams["squad_mask"]].any()
    assert (streams["squad"][0, 1, :9, layout.columns(SQUAD, "readiness")] == 1).all()
