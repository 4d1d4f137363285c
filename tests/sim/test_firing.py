"""Lasers, autocannons and flamers, and the rules of all triggers: conditions, targets, heat and cooldown."""

import dataclasses
import math

import pytest
import torch
from builders import duel, scene
from first_catalog import SMALL, Timer, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.runtime.geometry import unit

pytestmark = pytest.mark.quick

LASER = (0, Act.PRIMARY, 1.0)
CANNON = (0, Act.TERTIARY, 1.0)
BUMP = (13, 14, 20, 21)
"""A voxel column between the duellists."""


def trio(first, second):
    """Return a scene with blue 0 at (10.5, 20.5) facing +x, and red 1 and red 2 facing it."""
    s = scene(dataclasses.replace(SMALL, blue=("medium",), red=("medium", "medium")))
    return s.place(0, 10.5, 20.5).place(1, *first, yaw=math.pi).place(2, *second, yaw=math.pi)


# Lasers


def test_laser_hits_in_the_same_substep():
    s = duel(8, "medium", "medium")
    s.run(s.orders(LASER))
    assert s.value("hp", 1) == 150 - 14
    assert s.value("heat", 1) == 6
    assert s.value("stability", 1) == 100
    assert s.value("heat", 0) == 22
    assert s.state.mechs.cooldown[0, 0].tolist() == [12, 0, 0, 0, 0]
    assert (s.counted("shots", 0), s.counted("hits", 0), s.counted("damage", 0)) == (1, 1, 14)
    assert s.counted("damage", 1) == 0


@pytest.mark.usual
def test_laser_fires_once_per_cooldown():
    s = duel(8, "medium", "medium")
    hp = [s.run(s.orders(LASER)).value("hp", 1) for _ in range(25)]
    assert [i for i in range(25) if hp[i] < (150, *hp)[i]] == [0, 12, 24]


@pytest.mark.parametrize(("range_vox", "fires"), [(8.0, 1), (8.01, 0)])
def test_laser_fires_within_its_range(range_vox, fires):
    s = duel(range_vox, "medium", "medium")
    assert s.run(s.orders(LASER)).counted("shots", 0) == fires


@pytest.mark.parametrize(("bearing_deg", "fires"), [(59, 1), (-59, 1), (61, 0), (180, 0)])
def test_laser_fires_within_its_arc(bearing_deg, fires):
    s = duel(7, "medium", "medium").set(0, yaw=math.radians(bearing_deg))
    assert s.run(s.orders(LASER)).counted("shots", 0) == fires


@pytest.mark.parametrize(
    ("material", "fires"),
    [(Material.SOLID, 0), (Material.SOLID_DEBRIS, 0), (Material.FOLIAGE, 0), (Material.GLASS, 1), (Material.LAVA, 1)],
)
def test_a_laser_needs_a_clear_line(material, fires):
    s = duel(7, "medium", "medium", (*BUMP, 1, 3, material))
    assert s.run(s.orders(LASER)).counted("shots", 0) == fires


def test_laser_without_target_adds_no_heat_and_no_cooldown():
    s = duel(9, "medium", "medium")
    s.run(s.orders(LASER), 3)
    assert s.value("heat", 0) == 0 and s.counted("shots", 0) == 0
    assert s.state.mechs.cooldown[0, 0].tolist() == [0] * 5


@pytest.mark.parametrize(("focus", "hit"), [({}, 1), ({0: 2}, 2), ({0: 1}, 1)])
def test_focus_target_is_preferred_to_the_nearest(focus, hit):
    s = trio((14.5, 18.5), (16.5, 22.5))
    s.run(s.orders(LASER, focus=focus))
    assert [s.value("hp", n) for n in (1, 2)] == [136 if n == hit else 150 for n in (1, 2)]


def test_focus_target_out_of_range_is_replaced_by_the_nearest():
    s = trio((14.5, 18.5), (25.5, 20.5))
    assert s.run(s.orders(LASER, focus={0: 2})).value("hp", 1) == 136


@pytest.mark.parametrize("state", [{"heat": 150}, {"fallen": 60}, {"hp": 0}, {"cooldown": 2}])
def test_only_a_running_mech_with_a_ready_weapon_fires(state):
    s = duel(7, "medium", "medium").set(0, **state)
    assert s.run(s.orders(LASER, CANNON)).counted("shots", 0) == 0


def test_cooldown_of_one_substep_is_over_before_firing():
    s = duel(7, "medium", "medium").set(0, cooldown=1)
    s.run(s.orders(LASER, CANNON))
    assert [s.counted("shots", 0, weapon) for weapon in (Weapon.LASER, Weapon.AUTOCANNON)] == [1, 1]


def test_venting_forbids_every_weapon():
    s = duel(7, "medium", "medium").set(0, heat=80)
    assert s.run(s.orders(LASER, CANNON, (0, Act.VENT, 1.0)), 5).counted("shots", 0) == 0


def test_laser_does_not_target_dead_mechs_and_teammates():
    config = dataclasses.replace(SMALL, blue=("medium", "medium"), red=("medium",))
    s = scene(config).place(0, 10.5, 20.5).place(1, 14.5, 20.5).place(2, 17.5, 24.5).set(2, hp=0)
    s.run(s.orders(LASER))
    assert s.counted("shots", 0) == 0 and s.value("hp", 1) == 150


def test_all_mechs_fire_on_the_same_state():
    s = duel(7, "medium", "medium").set(0, hp=10).set(1, hp=10)
    s.run(s.orders(LASER, (1, Act.PRIMARY, 1.0)))
    assert s.value("hp", 0) == s.value("hp", 1) == 0
    assert s.counted("kills", 0) == s.counted("kills", 1) == 1


@pytest.mark.parametrize(("hull", "column"), [("heavy", Act.PRIMARY), ("light", Act.SECONDARY)])
def test_heavies_and_lights_carry_lasers_too(hull, column):
    s = duel(6, hull, "medium")
    s.run(s.orders((0, column, 1.0)))
    assert s.value("hp", 1) == 136 and s.value("heat", 0) == 22


# Autocannons: muzzle at 1.5 + 0.8 * 1.5 = 2.7


def test_an_autocannon_needs_no_target():
    s = duel(25, "medium", "medium")
    s.run(s.orders(CANNON))
    assert s.counted("shots", 0) == 1 and s.value("heat", 0) == 6
    assert s.state.mechs.cooldown[0, 0, Timer.KINETIC] == 4
    pos, vel, ttl = s.shot(Weapon.AUTOCANNON, 0)
    assert pos == pytest.approx([10.5, 20.5, 2.7])
    assert (vel, ttl) == ([25, 0, 0], 10)
    assert s.state.shots.ttl.sum() == 10  # no other shot is in flight


@pytest.mark.usual
def test_autocannon_fires_once_per_cooldown():
    s = duel(25, "medium", "medium")
    shots = [s.run(s.orders(CANNON)).counted("shots", 0) for _ in range(13)]
    assert [i for i in range(13) if shots[i] > (0, *shots)[i]] == [0, 4, 8, 12]


def test_slots_never_overflow():
    s = duel(25, "medium", "medium")
    for _ in range(60):
        before = s.counted("shots", 0, Weapon.AUTOCANNON)
        s.run(s.orders(CANNON, (0, Act.YAW_RATE, 1.0)))
        fired = s.counted("shots", 0, Weapon.AUTOCANNON) - before
        fresh = [s.shot(Weapon.AUTOCANNON, 0, which)[2] == 10 for which in range(3)]
        assert sum(fresh) == fired
    assert s.counted("shots", 0, Weapon.AUTOCANNON) == 15
    assert s.counted("shots", 1) == 0


@pytest.mark.parametrize(
    ("bearing_rad", "focus", "aims"),
    [(0.09, {}, True), (-0.09, {}, True), (0.11, {}, False), (0.19, {0: 1}, True), (0.21, {0: 1}, False)],
)
def test_autocannon_aims_at_targets_within_a_small_bearing(bearing_rad, focus, aims):
    s = duel(10, "medium", "medium").set(0, yaw=bearing_rad)
    s.run(s.orders(CANNON, focus=focus))
    at_target = unit(torch.tensor([10.0, 0.0, -1.2]))  # centre to centre, less the muzzle's 1.2
    ahead = torch.tensor([math.cos(bearing_rad), math.sin(bearing_rad), 0.0])
    wanted = 25 * (at_target if aims else ahead)
    assert s.shot(Weapon.AUTOCANNON, 0)[1] == pytest.approx(wanted.tolist(), abs=1e-4)


def test_an_autocannon_aims_no_further_than_its_range():
    s = duel(12.5, "medium", "medium")
    s.run(s.orders(CANNON))
    assert s.shot(Weapon.AUTOCANNON, 0)[1] == [25, 0, 0]


def test_an_autocannon_aims_through_walls():
    s = duel(10, "medium", "medium", (*BUMP, 1, 6, Material.SOLID))
    s.run(s.orders(CANNON))
    assert s.shot(Weapon.AUTOCANNON, 0)[1][2] < 0


def test_one_trigger_fires_all_its_weapons():
    s = duel(7, "medium", "medium")
    s.run(s.orders(LASER, CANNON))
    assert s.value("heat", 0) == 22 + 6 + 5  # laser, autocannon and painter share the trigger
    assert s.state.mechs.cooldown[0, 0].tolist() == [12, 0, 4, 20, 0]


def test_target_out_of_one_weapons_range_does_not_stop_other_weapons():
    s = duel(10.5, "medium", "medium")
    s.run(s.orders(LASER, CANNON))
    assert s.value("heat", 0) == 6 and s.state.mechs.cooldown[0, 0].tolist() == [0, 0, 4, 0, 0]


# Flamers


FLAMER = (0, Act.PRIMARY, 1.0)


def test_flamer_damages_and_heats_its_target():
    s = duel(4, "light", "medium").set(0, heat=50)
    s.run(s.orders(FLAMER))
    assert (s.value("hp", 1), s.value("heat", 1), s.value("stability", 1)) == (150 - 5, 5, 100)
    assert s.value("heat", 0) == pytest.approx(50 - 0.6 + 10)
    assert s.state.mechs.cooldown[0, 0].tolist() == [0, 0, 3, 0, 0]
    assert (s.counted("shots", 0, Weapon.FLAMER), s.counted("hits", 0, Weapon.FLAMER)) == (1, 1)
    assert s.counted("damage", 0) == 5


def test_flamer_fires_once_per_cooldown():
    s = duel(4, "light", "medium")
    hp = [s.run(s.orders(FLAMER)).value("hp", 1) for _ in range(7)]
    assert [i for i in range(7) if hp[i] < (150, *hp)[i]] == [0, 3, 6]


@pytest.mark.parametrize(("range_vox", "fires"), [(4.49, 1), (4.51, 0)])
def test_flamer_fires_within_its_range(range_vox, fires):
    s = duel(range_vox, "light", "light")
    assert s.run(s.orders(FLAMER)).counted("shots", 0) == fires


@pytest.mark.parametrize(("bearing_deg", "fires"), [(44, 1), (-44, 1), (46, 0)])
def test_flamer_fires_within_its_arc(bearing_deg, fires):
    s = duel(4, "light", "light").set(0, yaw=math.radians(bearing_deg))
    assert s.run(s.orders(FLAMER)).counted("shots", 0) == fires


def test_a_flamer_needs_a_clear_line():
    s = duel(4, "light", "light", (12, 13, 20, 21, 0, 3, Material.FOLIAGE))
    assert s.run(s.orders(FLAMER)).counted("shots", 0) == 0


def test_one_flamer_cannot_keep_a_heavy_shut_down():
    s = duel(4, "light", "heavy").set(1, heat=140)
    s.run(s.orders(FLAMER), 2)
    assert s.value("heat", 1) == pytest.approx(140 + 5 - 2 * 0.5)


# Counts of shutdowns and shots


@pytest.mark.usual
def test_each_overheating_counts_one_shutdown():
    s = duel(7, "medium", "scout").set(0, heat=95)
    s.run(s.orders(LASER))
    assert s.value("heat", 0) == pytest.approx(95 - 0.55 + 22)
    assert s.counted("shutdowns", 0) == 1
    assert s.wait(20).counted("shutdowns", 0) == 1
    assert s.set(0, heat=99).run(s.orders(LASER)).counted("shutdowns", 0) == 2


def test_heat_from_enemy_hits_can_shut_down():
    s = duel(7, "medium", "medium").set(1, heat=98)
    s.run(s.orders(LASER))  # 98 - 0.55 + 6
    assert s.counted("shutdowns", 1) == 1 and s.counted("shutdowns", 0) == 0


@pytest.mark.usual
def test_shots_are_counted_by_weapon():
    s = duel(7, "medium", "medium")
    s.run(s.orders(LASER, CANNON), 13)
    fired = {weapon: s.counted("shots", 0, weapon) for weapon in Weapon if s.counted("shots", 0, weapon)}
    assert fired == {Weapon.LASER: 2, Weapon.AUTOCANNON: 4, Weapon.PAINTER: 1}
    assert s.counted("hits", 0, Weapon.LASER) == 2 and s.counted("hits", 0, Weapon.PAINTER) == 1
