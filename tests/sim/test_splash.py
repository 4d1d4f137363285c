"""Splash damage: 20 within 2.5 vox of a missile's impact, 25 within 1.5 vox of a gauss slug's.

Blue heavy 0 is far away. Its missile hits a wall at x = 20, y = 20.5, z = 2, in one substep.
"""

import math

import pytest
from builders import battle
from first_catalog import Weapon

from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

WALL = (20, 21, 18, 23, 0, 6, Material.REINFORCED)
FAR = (5.5, 5.5)


def burst(s, weapon=Weapon.MISSILE, z=2.0):
    """Let a shot of blue 0 hit the wall."""
    speed = 12.0 if weapon == Weapon.MISSILE else 40.0
    s.throw(weapon, 0, (19.7, 20.5, z), (speed, 0.0, 0.0))
    s.wait()
    assert s.shot(weapon, 0)[2] == 0
    return s


def field(blue=("heavy", "medium"), red=("medium", "medium"), wall=WALL):
    """Return a scene with all mechs far away, for a test to place near the impact."""
    s = battle(blue, red, wall)
    for n in range(len(blue) + len(red)):
        s.place(n, 5.5 + 4.5 * n, 5.5)
    return s


# A medium's centre is at z = 1.5. At (19, 22.5) its distance from the impact is sqrt(1 + 4 + 0.25) = 2.29.
NEAR = (19.0, 22.5)


def test_splash_deals_splash_scale_times_damage():
    s = burst(field().place(2, *NEAR))
    assert s.value("hp", 2) == 150 - 20
    assert s.counted("damage", 0) == 20
    assert s.counted("hits", 0) == 0  # splash is not a direct hit


def test_slug_splash_deals_splash_scale_times_damage():
    s = burst(field(blue=("heavy", "scout")).place(1, 19.2, 21.6), Weapon.GAUSS, z=1.0)  # 1.36 away
    assert s.value("hp", 1) == 60 - 25


def test_an_autocannon_does_not_splash():
    s = battle(("medium", "medium"), ("medium",), WALL).place(1, 18.5, 20.5).place(2, 30.5, 5.5)
    s.throw(Weapon.AUTOCANNON, 0, (19.8, 20.5, 2.0), (25.0, 0.0, 0.0)).wait()
    assert s.value("hp", 1) == 150


# A medium's centre is 0.5 below the impact (20, 20.5, 2), so it is 2.5 away at a horizontal distance of 2.4495.
@pytest.mark.parametrize(("aside", "lost"), [(2.44, 20), (2.46, 0)])
def test_missile_splash_reaches_splash_vox(aside, lost):
    assert burst(field().place(2, 19.999, 20.5 + aside)).value("hp", 2) == 150 - lost


@pytest.mark.parametrize(("aside", "lost"), [(1.49, 25), (1.51, 0)])
def test_slug_splash_reaches_splash_vox(aside, lost):
    # A scout's centre is at z = 0.9, the height of the impact.
    s = burst(field(blue=("heavy", "scout")).place(1, 19.999, 20.5 + aside), Weapon.GAUSS, z=0.9)
    assert s.value("hp", 1) == 60 - lost


def test_splash_hurts_friends_and_the_shooter_itself():
    s = burst(field().place(0, 18.5, 19.9).place(1, 19.0, 22.6))
    assert (s.value("hp", 0), s.value("hp", 1)) == (200 - 20, 150 - 20)
    assert s.counted("damage", 0) == 0


def test_splash_damages_each_mech_in_reach_independently():
    s = burst(field(red=("medium", "medium")).place(1, 18.0, 20.5).place(2, 19.0, 22.6).place(3, 19.0, 18.4))
    assert [s.value("hp", n) for n in (1, 2, 3)] == [130, 130, 130]
    assert s.counted("damage", 0) == 40


def test_directly_hit_mech_takes_no_splash():
    s = field().place(2, 22.0, 30.5, yaw=math.pi).place(3, 21.5, 32.55)
    s.throw(Weapon.MISSILE, 0, (20.2, 30.5, 1.5), (12.0, 0.0, 0.0)).wait()  # meets the sphere at x = 20.5
    assert (s.value("hp", 2), s.value("hp", 3)) == (150 - 40, 150 - 20)
    assert s.value("stability", 2) == 85 and s.counted("damage", 0) == 60


def test_each_of_two_missiles_splashes_the_target_of_the_other():
    s = field().place(2, 22.0, 29.5, yaw=math.pi).place(3, 22.0, 32.05, yaw=math.pi)
    for which, y in enumerate((29.5, 32.05)):
        s.throw(Weapon.MISSILE, 0, (20.2, y, 1.5), (12.0, 0.0, 0.0), which=which)
    s.wait()
    # From the impact at (20.5, 29.5) the centre of the other mech is 1.5 ahead and 2.55 aside: 2.96, out of reach.
    assert (s.value("hp", 2), s.value("hp", 3)) == (110, 110)
    s = field(red=("scout", "scout")).place(2, 21.0, 29.5, yaw=math.pi).place(3, 21.0, 31.0, yaw=math.pi)
    for which, y in enumerate((29.5, 31.0)):
        s.throw(Weapon.MISSILE, 0, (20.0, y, 0.9), (12.0, 0.0, 0.0), which=which)
    s.wait()
    assert (s.value("hp", 2), s.value("hp", 3)) == (0, 0)  # 40 and 20 each, of 60


@pytest.mark.parametrize(
    ("material", "lost"),
    [(Material.SOLID, 0), (Material.GLASS, 0), (Material.REINFORCED, 0), (Material.FOLIAGE, 20), (Material.WATER, 20)],
)
def test_solid_voxel_in_between_shields_from_splash(material, lost):
    s = battle(("heavy",), ("medium",), WALL, (19, 20, 21, 22, 1, 2, material)).place(0, *FAR)
    s.place(1, 18.0, 21.9)  # the line from the impact passes (19.3, 21, 1.8)
    assert burst(s).value("hp", 1) == 150 - lost


@pytest.mark.parametrize("material", [Material.REINFORCED, Material.SOLID, Material.GLASS])
def test_wall_one_voxel_thick_shields_from_splash(material):
    s = battle(("heavy",), ("scout",), (20, 21, 18, 23, 0, 6, material)).place(0, *FAR)
    s.place(1, 21.7, 20.5)  # 2.02 from the impact
    s = burst(s)
    assert s.value("hp", 1) == 60
    assert s.blocks(20, 20, 2)[0] == (material != Material.GLASS)  # even a pane that this impact breaks


def test_the_cells_at_both_ends_of_a_splash_do_not_shield():
    s = battle(("heavy",), ("medium",), WALL, (19, 20, 22, 23, 1, 2, Material.SOLID)).place(0, *FAR)
    assert burst(s.place(1, 19.0, 22.5)).value("hp", 1) == 130  # the hull's centre is inside the voxel


def test_splash_ignores_stability_legs_and_rear_factor():
    s = burst(field().place(2, *NEAR, yaw=math.pi / 2).set(2, stability=50), z=0.5)
    assert s.value("hp", 2) == 130
    assert s.value("leg_hp", 2) == 75 and s.value("stability", 2) == pytest.approx(50.5)


def test_splash_sets_hit_from():
    s = burst(field().place(2, *NEAR))
    assert s.value("under_fire", 2) == 20
    long = math.hypot(1, 2)
    assert s.state.mechs.hit_from[0, 2].tolist() == pytest.approx([1 / long, -2 / long], abs=1e-3)


def test_paint_bonus_applies_to_splash():
    s = burst(field(blue=("heavy", "scout")).place(2, *NEAR).paint(2, painter=1))
    assert s.value("hp", 2) == 150 - 22


def test_a_kill_by_splash_is_credited():
    s = burst(field().place(2, *NEAR).set(2, hp=15))
    assert (s.counted("kills", 0), s.counted("damage", 0), s.counted("team_kills", 0)) == (1, 15, 0)


def test_killing_a_teammate_by_splash_counts_as_team_kill():
    s = burst(field().place(1, *NEAR).set(1, hp=15))
    assert s.value("hp", 1) == 0
    assert (s.counted("kills", 0), s.counted("team_kills", 0), s.counted("damage", 0)) == (0, 1, 0)


def test_dead_mechs_take_no_splash():
    s = burst(field().place(2, *NEAR).set(2, hp=0))
    assert not s.state.tally.kills.any() and not s.state.tally.damage.any()


def test_a_burst_on_the_floor_splashes():
    s = field().place(2, 30.5, 30.5)
    s.throw(Weapon.MISSILE, 0, (28.4, 30.5, 0.2), (0.0, 0.0, -12.0)).wait()  # 2.1 aside and 1.5 below
    assert s.value("hp", 2) == 150 - 0  # 2.58 away
    s.throw(Weapon.MISSILE, 0, (28.6, 30.5, 0.2), (0.0, 0.0, -12.0)).wait()  # 1.9 aside: 2.42
    assert s.value("hp", 2) == 130


def test_expired_shot_and_shot_outside_the_map_do_not_splash():
    s = field().place(2, 38.5, 20.5)
    s.throw(Weapon.MISSILE, 0, (36.5, 20.5, 3.9), (-12.0, 0.0, 0.0), ttl=1).wait()
    s.throw(Weapon.MISSILE, 0, (39.8, 20.5, 3.2), (12.0, 0.0, 0.0)).wait()
    assert s.shot(Weapon.MISSILE, 0)[2] == 0 and s.value("hp", 2) == 150
