"""Smoke shots fly 0.75 vox per substep, horizontally, from the top of the hull, which is at z = 3 for a medium."""

import math

import pytest
from builders import battle, duel
from first_catalog import Timer, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

SMOKE = (0, Act.SPECIAL, 1.0)


def wait_for_cloud(s, mech=0):
    """Return the substeps until a mech's smoke shot becomes a cloud, and the position of the cloud."""
    for i in range(60):
        if s.clouds(mech):
            return i, s.clouds(mech)[0][0]
        s.wait()
    raise AssertionError("no cloud")


def test_smoke_flies_horizontally_from_the_top_of_the_hull():
    s = duel(25, "medium", "scout").place(0, 10.5, 20.5, yaw=math.pi / 2)
    s.run(s.orders(SMOKE))
    pos, vel, ttl = s.shot(Weapon.SMOKE, 0)
    assert pos == [10.5, 20.5, 3] and vel == pytest.approx([0, 15, 0], abs=1e-5)
    assert ttl == 27  # 20 vox at 15 vox/s are 26.7 substeps
    assert s.value("heat", 0) == 10 and s.state.mechs.cooldown[0, 0].tolist() == [0, 100, 0, 0, 0]
    assert s.counted("shots", 0, Weapon.SMOKE) == 1


@pytest.mark.parametrize("hull", ["scout", "light", "medium", "heavy"])
def test_every_hull_carries_smoke(hull):
    s = duel(25, hull, "scout")
    s.run(s.orders(SMOKE))
    assert s.shot(Weapon.SMOKE, 0)[0][2] == pytest.approx(2 * s.pos(0)[2])


@pytest.mark.usual
def test_straight_ahead_smoke_flies_to_the_end_of_its_range():
    s = duel(25, "medium", "scout").place(1, 30.5, 5.5)
    s.run(s.orders(SMOKE))
    assert wait_for_cloud(s) == (27, pytest.approx([10.5 + 27 * 0.75, 20.5, 3]))


def test_smoke_ends_its_flight_above_the_focus_target():
    s = duel(15, "medium", "scout").place(1, 19.5, 32.5)  # 9 ahead and 12 to the left: 15 away, or 20 substeps
    s.run(s.orders(SMOKE, focus={0: 1}))
    assert s.shot(Weapon.SMOKE, 0)[1] == pytest.approx([9, 12, 0])
    assert wait_for_cloud(s) == (20, pytest.approx([19.5, 32.5, 3]))


@pytest.mark.parametrize(("x", "aims"), [(30.4, True), (30.6, False)])
def test_smoke_is_aimed_within_its_range(x, aims):
    s = duel(10, "medium", "medium").place(0, 10.5, 20.5, yaw=0.5).place(1, x, 20.5)
    s.run(s.orders(SMOKE, focus={0: 1}))
    assert (s.shot(Weapon.SMOKE, 0)[1][1] == pytest.approx(0, abs=1e-4)) == aims


@pytest.mark.parametrize(("bearing_deg", "aims"), [(89, True), (-89, True), (91, False)])
def test_smoke_is_aimed_within_its_arc(bearing_deg, aims):
    s = duel(10, "medium", "medium").set(0, yaw=math.radians(bearing_deg))
    s.run(s.orders(SMOKE, focus={0: 1}))
    assert (s.shot(Weapon.SMOKE, 0)[1][0] == pytest.approx(15)) == aims


@pytest.mark.parametrize(("focus", "hp"), [({}, 150), ({0: 1}, 0)])
def test_without_a_living_focus_smoke_flies_straight_ahead(focus, hp):
    s = duel(10, "medium", "medium").set(0, yaw=0.5).set(1, hp=hp)
    s.run(s.orders(SMOKE, focus=focus))
    assert s.shot(Weapon.SMOKE, 0)[1] == pytest.approx([15 * math.cos(0.5), 15 * math.sin(0.5), 0])


def test_smoke_bursts_against_a_wall():
    s = duel(25, "medium", "scout", (14, 15, 20, 21, 1, 6, Material.SOLID))
    s.run(s.orders(SMOKE))
    substeps, where = wait_for_cloud(s)
    assert substeps == 5  # 3.5 vox at 0.75
    assert where == pytest.approx([14, 20.5, 3], abs=0.01)
    assert s.worn(14, 20, 3) == 0


@pytest.mark.usual
def test_smoke_bursts_against_an_enemy_and_does_not_hurt_it():
    s = duel(8, "medium", "heavy")
    s.run(s.orders(SMOKE))
    substeps, where = wait_for_cloud(s)
    # The shot flies 1 above the centre of a sphere of radius 2. It enters it sqrt(3) before the middle, after 6.27 vox.
    assert substeps == 9 and where == pytest.approx([18.5 - math.sqrt(3), 20.5, 3], abs=0.01)
    assert (s.value("hp", 1), s.value("stability", 1), s.value("under_fire", 1)) == (200, 100, 0)


def test_cloud_lasts_cloud_s():
    s = duel(25, "medium", "scout").throw(Weapon.SMOKE, 0, (20.5, 30.5, 3.0), (0.0, 15.0, 0.0), ttl=1).wait()
    assert s.clouds(0) == [(pytest.approx([20.5, 31.25, 3]), 200)]
    assert s.smoke(0, 20.5, 31.25, 3.0, ttl=2).wait().clouds(0)[0][1] == 1
    assert s.wait().clouds(0) == []


@pytest.mark.usual
def test_slots_limit_clouds_per_mech():
    s = duel(25, "medium", "scout", (14, 15, 15, 26, 1, 6, Material.SOLID)).place(1, 38.5, 5.5)
    s.set(0, yaw=math.pi / 2).run(s.orders(SMOKE))  # 19.5 vox to the map's edge, 26 substeps
    s.wait(99).set(0, yaw=0.0)  # the other shots end immediately
    s.place(0, 12.5, 20.5)
    seen = [len(s.run(s.orders(SMOKE)).clouds(0)) for _ in range(204)]
    assert s.counted("shots", 0, Weapon.SMOKE) == 4
    assert (seen[0], seen[99], seen[103], seen[130], seen[203]) == (1, 2, 3, 2, 2)
    assert max(seen) == 3


@pytest.mark.usual
def test_each_mech_owns_its_clouds():
    s = duel(25, "medium", "scout")
    s.run(s.orders(SMOKE, (1, Act.SPECIAL, 1.0))).wait(30)
    assert len(s.clouds(0)) == len(s.clouds(1)) == 1


def test_smoke_blocks_lasers():
    s = duel(7, "medium", "medium")
    laser = s.orders((0, Act.PRIMARY, 1.0))
    assert s.smoke(1, 14.0, 23.0, 1.5).run(laser).counted("shots", 0, Weapon.LASER) == 0
    assert s.smoke(1, 14.0, 25.0, 1.5).run(laser).counted("shots", 0, Weapon.LASER) == 1


def test_shots_fly_through_smoke():
    s = duel(7, "medium", "medium").smoke(1, 14.0, 20.5, 1.5)
    s.run(s.orders((0, Act.TERTIARY, 1.0))).wait(10)
    assert s.value("hp", 1) == 150 - 8


def test_new_cloud_blocks_beams_of_the_same_substep():
    s = duel(7, "medium", "medium").throw(Weapon.SMOKE, 1, (14.0, 20.0, 3.0), (0.0, 15.0, 0.0), ttl=1)
    assert s.run(s.orders((0, Act.PRIMARY, 1.0))).counted("shots", 0) == 0  # phase 5 comes before phase 6


def test_disabled_smoke_does_not_fire_and_adds_no_heat():
    s = battle(("medium",), ("medium",), smoke=False)
    s.run(s.orders(SMOKE), 3)
    assert s.counted("shots", 0) == 0 and s.value("heat", 0) == 0
    assert s.state.mechs.cooldown[0, 0, Timer.MISSILE] == 0
