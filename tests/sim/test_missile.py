"""Missiles: lock, launch, homing. A heavy's centre is at z = 2, its rack at 4.5. Missiles fly 0.6 vox per substep."""

import dataclasses
import math

import pytest
from builders import SMALL, battle, duel, scene
from first_catalog import CATALOG, Timer, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig

pytestmark = pytest.mark.quick

MISSILE = (0, Act.SECONDARY, 1.0)
ECM = 0.3
"""Value of a scout's secondary trigger that runs ECM."""
WALL = (14, 15, 18, 23, 1, 6)


def launches(s, *told):
    """Return the number of missiles that blue 0 fires in one substep."""
    return s.run(s.orders(MISSILE, *told)).counted("shots", 0, Weapon.MISSILE)


# Lock


@pytest.mark.parametrize(("range_vox", "fires"), [(11.99, 1), (12.01, 0)])
def test_missile_locks_on_sight_within_sight_lock_vox(range_vox, fires):
    assert launches(duel(range_vox, "heavy", "heavy")) == fires


@pytest.mark.parametrize(("range_vox", "fires"), [(5.99, 1), (6.01, 0)])
def test_lock_on_sight_uses_the_catalog_range(range_vox, fires):
    """The range is shorter than that of a painter's lines of sight."""
    catalog = dataclasses.replace(CATALOG, sight_lock_vox=6.0)
    s = scene(dataclasses.replace(SMALL, blue=("heavy",), red=("heavy",), catalog=catalog))
    assert launches(s.place(0, 10.5, 20.5).place(1, 10.5 + range_vox, 20.5, yaw=math.pi)) == fires


@pytest.mark.parametrize(
    ("material", "fires"), [(Material.SOLID, 0), (Material.FOLIAGE, 0), (Material.GLASS, 1), (Material.WATER, 1)]
)
def test_a_lock_on_sight_needs_a_clear_line(material, fires):
    assert launches(duel(10, "heavy", "heavy", (*WALL, material))) == fires


def test_smoke_breaks_a_lock_on_sight_and_paint_restores_it():
    s = battle(("heavy", "scout"), ("heavy",)).place(0, 10.5, 20.5).place(1, 10.5, 30.5).place(2, 20.5, 20.5)
    s.smoke(2, 15.5, 20.5, 2.0)
    assert launches(s) == 0
    assert launches(s.paint(2, painter=1)) == 1


def test_missile_without_lock_adds_no_heat_and_no_cooldown():
    s = duel(13, "heavy", "heavy")
    assert launches(s) == 0
    assert s.value("heat", 0) == 0 and s.state.mechs.cooldown[0, 0, Timer.MISSILE] == 0


@pytest.mark.parametrize(("distance", "fires"), [(49.9, 1), (50.1, 0)])
def test_paint_locks_through_walls_within_weapon_range(distance, fires):
    wall = (18, 22, 0, 40, 0, 10, Material.SOLID)
    s = battle(("heavy", "scout"), ("scout",), wall).place(0, 2.5, 2.5, yaw=math.pi / 4).place(1, 2.5, 10.5)
    aside = distance * math.sqrt(0.5)
    s.place(2, 2.5 + aside, 2.5 + aside, bottom=1.1).paint(2, painter=1)  # both centres at z = 2
    assert launches(s) == fires


def test_paint_gives_locks_only_to_the_painters_pack():
    blue = ("heavy", "scout", "scout", "scout", "scout", "light")  # the light is in its own pack
    s = battle(blue, ("medium",)).place(0, 10.5, 20.5).place(6, 30.5, 20.5)
    assert launches(s.paint(6, painter=5)) == 0
    assert launches(s.paint(6, painter=4)) == 1


def test_expired_paint_gives_no_lock():
    s = battle(("heavy", "scout"), ("medium",)).place(0, 10.5, 20.5).place(1, 10.5, 30.5).place(2, 30.5, 20.5)
    assert launches(s.paint(2, painter=1, substeps=1)) == 0  # timers count down first
    assert launches(s.paint(2, painter=1, substeps=2)) == 1


# Jammed sensors have a quality of 1 - 0.85 (1 - d / 50), which is 0.70 at d = 32.35.
@pytest.mark.parametrize(("jammer_at", "range_vox", "fires"), [(32.5, 20, 1), (32.2, 20, 0), (13.0, 10, 1)])
def test_lock_on_paint_needs_lock_quality(jammer_at, range_vox, fires):
    s = battle(("heavy", "scout"), ("medium", "scout")).place(0, 2.5, 20.5).place(1, 2.5, 38.5)
    s.place(2, 2.5 + range_vox, 20.5).place(3, 2.5 + jammer_at, 20.5, bottom=1.1).paint(2, painter=1)
    assert launches(s, (3, Act.SECONDARY, ECM)) == fires  # at 10 vox the mech locks on sight


def test_eccm_restores_a_jammed_lock():
    s = battle(("heavy", "scout"), ("medium", "scout")).place(0, 10.5, 20.5).place(1, 10.5, 25.5)
    s.place(2, 28.5, 20.5).place(3, 35.5, 20.5).paint(2, painter=1)
    jam, clear = (3, Act.SECONDARY, ECM), (1, Act.SECONDARY, 1.0)
    assert launches(s, jam) == 0  # 1 - 0.85 * 0.5
    assert launches(s, jam, clear) == 1  # + 0.65 * 0.9


@pytest.mark.parametrize(("bearing_deg", "fires"), [(89, 1), (-89, 1), (91, 0)])
def test_missile_fires_within_its_arc(bearing_deg, fires):
    assert launches(duel(10, "heavy", "heavy").set(0, yaw=math.radians(bearing_deg))) == fires


@pytest.mark.parametrize(("focus", "target"), [({}, 1), ({0: 2}, 2)])
def test_a_missile_prefers_the_focus_target(focus, target):
    s = battle(("heavy",), ("medium", "medium")).place(0, 10.5, 20.5).place(1, 16.5, 18.5).place(2, 18.5, 23.5)
    s.run(s.orders(MISSILE, focus=focus))
    assert s.state.shots.target[0, s.slot(Weapon.MISSILE, 0)] == target


# Launch


def test_a_missile_rises_from_the_hulls_top():
    s = duel(10, "heavy", "heavy")
    assert launches(s) == 1
    pos, vel, ttl = s.shot(Weapon.MISSILE, 0)
    assert pos == pytest.approx([10.5, 20.5, 4.5])
    assert vel == pytest.approx([24 / math.sqrt(5), 0, 12 / math.sqrt(5)], abs=1e-4)  # along (1, 0, 0.5)
    assert ttl == 83
    assert s.value("heat", 0) == 45 and s.state.mechs.cooldown[0, 0].tolist() == [0, 60, 0, 0, 0]


def test_launch_direction_leads_from_centre_to_centre():
    s = duel(10, "heavy", "heavy").place(1, 16.5, 20.5, bottom=8.0)  # 6 ahead and 8 up: (0.6, 0, 0.8) + (0, 0, 0.5)
    assert launches(s) == 1
    long = math.hypot(0.6, 1.3)
    assert s.shot(Weapon.MISSILE, 0)[1] == pytest.approx([12 * 0.6 / long, 0, 12 * 1.3 / long], abs=1e-4)


def far(range_vox=45.0):
    """Return a scene with a heavy and a painted medium on the large map."""
    config = dataclasses.replace(EnvConfig.large(), catalog=CATALOG, blue=("heavy", "scout"), red=("medium",))
    s = scene(config).place(0, 10.5, 50.5).place(1, 10.5, 60.5).place(2, 10.5 + range_vox, 50.5)
    return s.paint(2, painter=1, substeps=1000)


@pytest.mark.usual
def test_slots_limit_missiles_in_flight():
    s = far()
    s.run(s.orders(MISSILE), 61)
    assert s.counted("shots", 0, Weapon.MISSILE) == 2
    assert [s.shot(Weapon.MISSILE, 0, which)[2] for which in (0, 1)] == [23, 83]


@pytest.mark.usual
def test_missile_and_smoke_share_a_timer():
    s, smoke = far(), (0, Act.SPECIAL, 1.0)
    s.run(s.orders(MISSILE)).run(s.orders(smoke), 59)
    assert s.counted("shots", 0, Weapon.SMOKE) == 0
    assert s.run(s.orders(smoke)).counted("shots", 0, Weapon.SMOKE) == 1
    s.run(s.orders(MISSILE), 99)
    assert s.counted("shots", 0, Weapon.MISSILE) == 1
    assert s.run(s.orders(MISSILE)).counted("shots", 0, Weapon.MISSILE) == 2


def test_missile_and_smoke_fired_together_set_the_longer_cooldown():
    s = duel(10, "heavy", "heavy")
    s.run(s.orders(MISSILE, (0, Act.SPECIAL, 1.0)))
    assert (s.counted("shots", 0), s.value("heat", 0)) == (2, 45 + 10)
    assert s.state.mechs.cooldown[0, 0, Timer.MISSILE] == 100


# Homing


def test_one_step_of_homing():
    s = duel(10, "heavy", "heavy")
    s.throw(Weapon.MISSILE, 0, (10.5, 20.5, 4.5), (0.0, 12.0, 0.0), target=1).wait()
    # The target lies (10, 0, -2.5) away: unit (0.97014, 0, -0.24254), times 12 (11.6417, 0, -2.9104).
    # 0.8 v + 0.2 of that is (2.32834, 9.6, -0.58209), of length 9.89547, rescaled to 12.
    wanted = [2.82352, 11.64169, -0.70589]
    pos, vel, ttl = s.shot(Weapon.MISSILE, 0)
    assert vel == pytest.approx(wanted, abs=1e-4)
    assert pos == pytest.approx([10.5 + 0.05 * wanted[0], 20.5 + 0.05 * wanted[1], 4.5 + 0.05 * wanted[2]], abs=1e-4)
    assert ttl == 49


@pytest.mark.usual
def test_missile_keeps_its_speed_and_hits_a_moving_target():
    s = duel(11, "heavy", "scout")
    s.run(s.orders(MISSILE))
    speeds = []
    while s.shot(Weapon.MISSILE, 0)[2] > 0:
        s.run(s.orders((1, Act.STRAFE, -0.7)))
        speeds.append(math.hypot(*s.shot(Weapon.MISSILE, 0)[1]))
    assert speeds == pytest.approx([12.0] * len(speeds), abs=1e-4)
    assert s.pos(1)[1] > 22 and s.value("hp", 1) == 20


@pytest.mark.usual
def test_missile_deals_its_damage_and_stability_loss():
    s = duel(11, "heavy", "heavy").set(1, stability=50)
    s.run(s.orders(MISSILE))
    while s.value("hp", 1) == 200:
        before = s.value("stability", 1)
        s.wait()
    assert s.value("hp", 1) == 160
    assert s.value("stability", 1) == pytest.approx(before + 0.5 - 15)  # a substep of regeneration
    assert (s.counted("hits", 0, Weapon.MISSILE), s.counted("damage", 0)) == (1, 40)
    assert s.shot(Weapon.MISSILE, 0)[2] == 0


def test_a_missile_flies_on_when_its_target_dies():
    s = duel(20, "heavy", "medium")
    s.throw(Weapon.MISSILE, 0, (12.5, 20.5, 8.0), (0.0, 7.2, 9.6), target=1).set(1, hp=0).wait()
    pos, vel, ttl = s.shot(Weapon.MISSILE, 0)
    assert vel == pytest.approx([0, 7.2, 9.6]) and ttl == 49
    assert pos == pytest.approx([12.5, 20.86, 8.48])


@pytest.mark.usual
def test_missile_without_target_hits_the_first_enemy_on_its_path():
    s = (
        battle(("heavy",), ("medium", "medium"))
        .place(0, 5.5, 20.5)
        .place(1, 35.5, 30.5)
        .place(2, 20.5, 20.5, yaw=math.pi)
    )
    s.throw(Weapon.MISSILE, 0, (12.5, 20.5, 1.5), (12.0, 0.0, 0.0), target=1).set(1, hp=0).wait(20)
    assert s.value("hp", 2) == 150 - 40


@pytest.mark.usual
def test_missile_flies_for_its_lifetime():
    s = far().run(far().orders(MISSILE)).set(2, hp=0)
    slot = s.slot(Weapon.MISSILE, 0)
    s.state.shots.vel[0, slot] = s.state.shots.vel.new_tensor([12.0, 0.0, 0.0])
    s.wait(82)
    assert s.shot(Weapon.MISSILE, 0)[0][0] == pytest.approx(10.5 + 82 * 0.6, abs=1e-3)
    assert s.shot(Weapon.MISSILE, 0)[2] == 1
    assert s.wait().shot(Weapon.MISSILE, 0)[2] == 0


def test_expired_missile_deals_no_damage():
    s = duel(10, "heavy", "medium")
    s.throw(Weapon.MISSILE, 0, (18.0, 20.5, 1.5), (-12.0, 0.0, 0.0), ttl=1).wait()
    assert s.shot(Weapon.MISSILE, 0)[2] == 0 and s.value("hp", 1) == 150
