"""Gauss rifles. A heavy's muzzle is at 2 + 0.8 * 2 = 3.6. Per substep a slug flies 2 vox and loses 0.4905 vox/s."""

import math

import pytest
from builders import battle, duel
from first_catalog import Timer, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

GAUSS = (0, Act.TERTIARY, 1.0)
FALL = 9.81 * 0.05


def fire_at(range_vox, **settings):
    s = duel(range_vox, "heavy", "heavy").set(0, **settings)
    return s.run(s.orders(GAUSS))


def test_a_gauss_leads_for_its_drop():
    pos, vel, ttl = fire_at(16).shot(Weapon.GAUSS, 0)
    # |(16, 0, -1.6)| = 16.0798: t = 0.401995, drop = 9.81 / 2 * t^2 = 0.79266, so the aim is (16, 0, -0.80734).
    long = math.hypot(16, 0.80734)
    assert pos == pytest.approx([10.5, 20.5, 3.6])
    assert vel == pytest.approx([40 * 16 / long, 0, -40 * 0.80734 / long], abs=1e-3)
    assert ttl == 10


def test_gauss_fires_without_target_once_per_cooldown():
    s = fire_at(25)
    assert s.shot(Weapon.GAUSS, 0)[1] == [40, 0, 0]  # no target in range: horizontal and straight ahead
    assert s.value("heat", 0) == 15 and s.state.mechs.cooldown[0, 0, Timer.KINETIC] == 80
    assert s.run(s.orders(GAUSS)).state.mechs.cooldown[0, 0, Timer.KINETIC] == 79
    s.state.mechs.cooldown[0, 0, Timer.KINETIC] = 3
    assert s.run(s.orders(GAUSS), 2).counted("shots", 0, Weapon.GAUSS) == 1
    assert s.run(s.orders(GAUSS)).counted("shots", 0, Weapon.GAUSS) == 2


@pytest.mark.parametrize(
    ("bearing_rad", "focus", "aims"),
    [(0.09, {}, True), (0.11, {}, False), (-0.19, {0: 1}, True), (-0.21, {0: 1}, False)],
)
def test_gauss_aims_at_targets_within_a_small_bearing(bearing_rad, focus, aims):
    s = duel(15, "heavy", "heavy").set(0, yaw=bearing_rad)
    vel = s.run(s.orders(GAUSS, focus=focus)).shot(Weapon.GAUSS, 0)[1]
    assert (vel[1] == pytest.approx(0, abs=1e-4)) == aims
    assert (vel[1] == pytest.approx(40 * math.sin(bearing_rad), abs=1e-4)) != aims


@pytest.mark.parametrize(("range_vox", "aims"), [(19.99, True), (20.01, False)])
def test_gauss_aims_within_its_range(range_vox, aims):
    assert (fire_at(range_vox).shot(Weapon.GAUSS, 0)[1][2] != 0) == aims


def test_a_gauss_needs_no_line():
    s = duel(10, "heavy", "heavy", (14, 15, 15, 26, 1, 8, Material.SOLID))
    assert s.run(s.orders(GAUSS)).shot(Weapon.GAUSS, 0)[1][2] < 0


def test_a_slug_falls():
    s = duel(25, "heavy", "heavy").throw(Weapon.GAUSS, 0, (12.5, 30.5, 10.0), (40.0, 0.0, 0.0)).wait(2)
    pos, vel, _ = s.shot(Weapon.GAUSS, 0)
    assert vel == pytest.approx([40, 0, -2 * FALL])
    assert pos == pytest.approx([16.5, 30.5, 10 - 0.05 * FALL - 0.05 * 2 * FALL])


@pytest.mark.usual
@pytest.mark.parametrize("range_vox", [6.0, 12.0, 19.0])
def test_lead_compensates_the_drop(range_vox):
    s = fire_at(range_vox)
    s.wait(10)
    assert s.value("hp", 1) == 150 and s.counted("hits", 0, Weapon.GAUSS) == 1


def test_slug_deals_its_damage_and_stability_loss():
    s = fire_at(8).wait(4)  # the sphere of radius 2 starts after 6.16 vox, in the fourth substep of flight
    assert s.value("hp", 1) == 150
    assert s.value("stability", 1) == 40
    assert (s.counted("hits", 0, Weapon.GAUSS), s.counted("damage", 0)) == (1, 50)


@pytest.mark.usual
def test_two_slugs_knock_a_mech_down():
    s = battle(("heavy", "heavy"), ("heavy",)).place(0, 10.5, 18.5, yaw=0.3).place(1, 10.5, 23.5, yaw=-0.3)
    s.place(2, 18.5, 21.0, yaw=math.pi)
    s.run(s.orders(GAUSS, (1, Act.TERTIARY, 1.0), focus={0: 2, 1: 2}))
    s.wait(4)
    assert (s.value("hp", 2), s.value("stability", 2), s.value("fallen", 2)) == (100, 0, 0)
    assert s.wait().value("fallen", 2) == 60  # footing is updated in the next substep
    assert s.counted("falls", 2) == 1
    assert s.wait(30).counted("falls", 2) == 1


def test_slug_from_behind_removes_rear_factor_times_stability():
    s = duel(8, "heavy", "heavy").set(1, yaw=0)
    s.run(s.orders(GAUSS)).wait(4)
    assert (s.value("hp", 1), s.value("stability", 1)) == (125, 10)


def test_slug_ends_at_the_floor():
    s = duel(25, "heavy", "heavy").throw(Weapon.GAUSS, 0, (12.5, 30.5, 3.0), (20.0, 0.0, -30.0)).wait()
    assert s.shot(Weapon.GAUSS, 0)[2] == 49  # at z = 1.48
    assert s.wait().shot(Weapon.GAUSS, 0)[2] == 0
