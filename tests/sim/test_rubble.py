"""Shots damage voxels and clear foliage. Damage: autocannon 8 hp, missile 40, gauss slug 50."""

import math

import pytest
import torch
from builders import battle, duel
from first_catalog import Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.sim.rubble import total_by_voxel
from echelon.sim.sight import enemy_lines

pytestmark = pytest.mark.quick

CELL = (14, 20, 1)
SPEED = {Weapon.MISSILE: 12.0, Weapon.GAUSS: 40.0, Weapon.AUTOCANNON: 25.0, Weapon.SMOKE: 15.0}
CARRIER = {Weapon.MISSILE: "heavy", Weapon.GAUSS: "heavy", Weapon.AUTOCANNON: "medium", Weapon.SMOKE: "medium"}


def wall(material):
    """Return one column of voxels at cell (14, 20), z from 1 to 3."""
    return (14, 15, 20, 21, 1, 4, material)


def facing(material, weapon=Weapon.GAUSS, **features):
    """Return a scene with blue 0, which carries the weapon, and red 1, both away from the line y = 20.5."""
    s = battle((CARRIER[weapon],), ("medium",), wall(material), **features)
    return s.place(0, 5.5, 5.5).place(1, 35.5, 35.5)


def shoot(s, weapon, times=1, y=20.5, z=1.5):
    """Let several shots of blue 0 hit the wall from the west, one per substep."""
    for _ in range(times):
        s.throw(weapon, 0, (13.7, y, z), (SPEED[weapon], 0.0, 0.0), ttl=1).wait()
    return s


@pytest.mark.parametrize(("weapon", "damage"), [(Weapon.AUTOCANNON, 8), (Weapon.MISSILE, 40), (Weapon.GAUSS, 50)])
def test_impact_damages_the_voxel_it_hits(weapon, damage):
    s = shoot(facing(Material.SOLID, weapon), weapon)
    assert s.worn(*CELL) == damage
    assert s.state.terrain.damage.sum() == damage  # and no other voxel is damaged
    assert s.material(*CELL) == Material.SOLID and s.blocks(*CELL) == (True, True)


@pytest.mark.parametrize(
    ("material", "weapon", "hits"),
    [
        (Material.SOLID, Weapon.GAUSS, 2),  # 100 of 100
        (Material.SOLID, Weapon.MISSILE, 3),
        (Material.SOLID, Weapon.AUTOCANNON, 13),  # 104
        (Material.GLASS, Weapon.AUTOCANNON, 2),
        (Material.GLASS, Weapon.MISSILE, 1),
        (Material.SOLID_DEBRIS, Weapon.GAUSS, 4),  # 200 of 200
        (Material.SOLID_DEBRIS, Weapon.AUTOCANNON, 25),
    ],
)
def test_a_voxel_without_hp_becomes_air(material, weapon, hits):
    s = shoot(facing(material, weapon), weapon, hits - 1)
    assert s.material(*CELL) == material and s.blocks(*CELL)[0]
    shoot(s, weapon)
    assert s.material(*CELL) == Material.AIR and s.blocks(*CELL) == (False, False)
    assert s.material(14, 20, 2) == s.material(14, 20, 3) == material  # one voxel only
    assert s.worn(*CELL) == 0  # a wreck in it would be undamaged


def test_nothing_breaks_reinforced_walls():
    s = shoot(facing(Material.REINFORCED), Weapon.GAUSS, 8)
    assert s.material(*CELL) == Material.REINFORCED and s.blocks(*CELL) == (True, True)


def test_voxel_damage_accumulates_over_weapons_and_time():
    s = shoot(shoot(facing(Material.SOLID, Weapon.MISSILE), Weapon.MISSILE), Weapon.GAUSS)
    assert s.wait(40).worn(*CELL) == 90
    assert shoot(s, Weapon.MISSILE).material(*CELL) == Material.AIR


def test_voxel_damage_of_one_substep_is_summed():
    s = battle(("heavy", "heavy", "medium"), ("medium",), wall(Material.SOLID))
    for n in range(4):
        s.place(n, 5.5 + 5 * n, 5.5)
    for which in range(3):
        s.throw(Weapon.AUTOCANNON, 2, (13.7, 20.2 + 0.2 * which, 1.5), (25.0, 0.0, 0.0), which=which)
    s.throw(Weapon.MISSILE, 0, (13.7, 20.5, 1.5), (12.0, 0.0, 0.0)).wait()
    assert s.worn(*CELL) == 3 * 8 + 40
    for n in (0, 1):
        s.throw(Weapon.GAUSS, n, (13.7, 20.5, 1.5 + 0.2 * n), (40.0, 0.0, 0.0))
    s.wait()
    assert s.material(*CELL) == Material.AIR


def test_hits_on_neighbouring_voxels_are_separate():
    s = facing(Material.SOLID, Weapon.AUTOCANNON)
    for which in range(3):
        s.throw(Weapon.AUTOCANNON, 0, (13.7, 20.5, 1.5 + which), (25.0, 0.0, 0.0), which=which)
    s.wait()
    assert [s.worn(14, 20, z) for z in (1, 2, 3)] == [8, 8, 8]


@pytest.mark.parametrize(
    ("start", "vel"),
    [
        ((15.3, 20.5, 1.5), (-40.0, 0.0, 0.0)),
        ((14.5, 19.7, 1.5), (0.0, 40.0, 0.0)),
        ((14.5, 21.3, 1.5), (0.0, -40.0, 0.0)),
        ((13.6, 20.0, 1.5), (35.0, 20.0, 0.0)),
    ],
)
def test_hit_voxel_is_damaged_from_every_side(start, vel):
    s = facing(Material.SOLID).throw(Weapon.GAUSS, 0, start, vel).wait()
    assert s.worn(*CELL) == 50


def test_voxel_is_damaged_from_above():
    s = facing(Material.SOLID).throw(Weapon.GAUSS, 0, (14.5, 20.5, 4.3), (0.0, 0.0, -40.0)).wait()
    assert s.worn(14, 20, 3) == 50


def test_breaking_shot_ends_and_the_next_flies_through():
    s = facing(Material.GLASS, Weapon.AUTOCANNON).place(1, 18.5, 20.5, yaw=math.pi)
    s.throw(Weapon.AUTOCANNON, 0, (13.7, 20.5, 1.5), (25.0, 0.0, 0.0), which=0)
    s.throw(Weapon.AUTOCANNON, 0, (13.8, 20.5, 1.5), (25.0, 0.0, 0.0), which=1)
    s.wait(5)
    assert s.material(*CELL) == Material.AIR and s.value("hp", 1) == 150
    s.throw(Weapon.AUTOCANNON, 0, (13.7, 20.5, 1.5), (25.0, 0.0, 0.0)).wait(5)
    assert s.value("hp", 1) == 142


def test_a_broken_voxel_opens_the_line_for_lasers_of_that_substep():
    s = duel(7, "medium", "heavy", wall(Material.SOLID)).place(1, 17.5, 20.5, yaw=math.pi)
    s.state.mechs.pos[:, :, 2] = 2.0  # both centres behind voxel (14, 20, 2)
    assert not enemy_lines(s.state, s.sim_model, 60.0)[0, 0, 1]
    s.throw(Weapon.GAUSS, 1, (15.3, 20.5, 2.5), (-40.0, 0.0, 0.0)).wait()
    s.state.mechs.pos[:, :, 2] = 2.0
    s.throw(Weapon.GAUSS, 1, (15.3, 20.5, 2.5), (-40.0, 0.0, 0.0))
    s.run(s.orders((0, Act.PRIMARY, 1.0)))
    assert s.counted("shots", 0, Weapon.LASER) == 1  # phase 5 comes before phase 6


@pytest.mark.usual
def test_mech_walks_through_a_broken_voxel():
    # A scout walks along y = 21, through cells 20 and 21, which a pane of glass at z = 1 blocks.
    s = duel(25, "scout", "medium", (14, 15, 20, 21, 1, 2, Material.GLASS)).place(0, 12.5, 21.0).place(1, 35.5, 35.5)
    walk = s.orders((0, Act.FORWARD, 1.0))
    assert s.run(walk, 20).pos(0)[0] <= 14 - 0.6
    s.throw(Weapon.AUTOCANNON, 1, (15.3, 20.5, 1.5), (-25.0, 0.0, 0.0), which=0)
    s.throw(Weapon.AUTOCANNON, 1, (15.3, 20.6, 1.5), (-25.0, 0.0, 0.0), which=1)
    assert s.run(walk, 20).pos(0)[0] > 18


def test_disabled_destruction_breaks_no_voxel():
    s = shoot(facing(Material.GLASS, destruction=False), Weapon.GAUSS, 3)
    assert s.material(*CELL) == Material.GLASS and s.worn(*CELL) == 0


def test_battles_on_one_map_have_separate_terrain():
    one, other = facing(Material.GLASS), facing(Material.GLASS)
    shoot(one, Weapon.GAUSS)
    both = torch.cat([one.state, other.state])
    alone = duel(8, "heavy", "medium", wall(Material.GLASS))
    alone.state = both
    assert [bool(both.terrain.solid[b, 20, 14] >> 1 & 1) for b in (0, 1)] == [False, True]
    alone.throw(Weapon.GAUSS, 0, (13.7, 20.5, 2.5), (40.0, 0.0, 0.0)).wait()
    assert [int(both.terrain.solid[b, 20, 14]) for b in (0, 1)] == [0b1000, 0b1010]


# Foliage


def hedge(*boxes, weapon=Weapon.GAUSS):
    """Return a scene with foliage in `boxes` (x0, x1, y0, y1, z0, z1), away from the mechs."""
    s = battle((CARRIER[weapon],), ("medium",), *((*box, Material.FOLIAGE) for box in boxes))
    return s.place(0, 5.5, 5.5).place(1, 35.5, 35.5)


def leaves(s):
    """Return the cells with foliage."""
    return {(x, y, z) for z, y, x in (s.materials() == int(Material.FOLIAGE)).nonzero().tolist()}


@pytest.mark.usual
@pytest.mark.parametrize("weapon", list(SPEED))
def test_shot_clears_only_the_foliage_on_its_path(weapon):
    s = hedge((12, 18, 19, 22, 1, 4), weapon=weapon).place(1, 35.5, 20.5)
    before = leaves(s)
    s.throw(weapon, 0, (11.5, 20.5, 2.5), (SPEED[weapon], 0.0, 0.0 if weapon != Weapon.GAUSS else 1.0), target=1)
    s.wait(12)
    assert before - leaves(s) == {(x, 20, 2) for x in range(12, 18)}
    assert not s.blocks(12, 20, 2)[1]


def test_foliage_does_not_stop_shots():
    s = hedge((12, 18, 19, 22, 1, 4), weapon=Weapon.AUTOCANNON).place(1, 22.5, 20.5, yaw=math.pi)
    s.throw(Weapon.AUTOCANNON, 0, (11.5, 20.5, 1.5), (25.0, 0.0, 0.0)).wait(9)
    assert s.value("hp", 1) == 142


def test_foliage_behind_a_wall_stays():
    s = battle(
        ("heavy",), ("medium",), (12, 18, 20, 21, 2, 3, Material.FOLIAGE), (14, 15, 20, 21, 2, 3, Material.SOLID)
    )
    s.place(0, 5.5, 5.5).throw(Weapon.GAUSS, 0, (12.9, 20.5, 2.5), (40.0, 0.0, 0.0)).wait()
    assert leaves(s) == {(15, 20, 2), (16, 20, 2), (17, 20, 2)}


def test_foliage_behind_the_hit_mech_stays():
    s = hedge((12, 18, 20, 21, 2, 3), weapon=Weapon.AUTOCANNON).place(1, 15.5, 20.5, yaw=math.pi)
    s.throw(Weapon.AUTOCANNON, 0, (11.5, 20.5, 2.5), (25.0, 0.0, 0.0)).wait(4)
    # The shot hits the sphere of radius 1.5 around z = 1.5 at sqrt(1.25) before 15.5, at x = 14.38.
    assert leaves(s) == {(x, 20, 2) for x in (15, 16, 17)}


def test_two_shots_clear_a_foliage_voxel_once():
    s = hedge((12, 14, 20, 21, 2, 3), weapon=Weapon.AUTOCANNON)
    for which in (0, 1):
        s.throw(Weapon.AUTOCANNON, 0, (11.5, 20.3 + 0.3 * which, 2.5), (25.0, 0.0, 0.0), which=which)
    s.wait(3)
    assert leaves(s) == set() and not s.blocks(12, 20, 2)[1] and not s.blocks(12, 20, 3)[1]


def cells_on_the_way(start, end):
    """Return the cells that a segment enters, by 4,000 samples, without cells that it grazes at a corner."""
    samples = [tuple(math.floor(a + (b - a) * i / 4000) for a, b in zip(start, end, strict=True)) for i in range(4001)]
    return {cell for cell in samples if samples.count(cell) > 40}


@pytest.mark.usual
@pytest.mark.parametrize("weapon", [Weapon.AUTOCANNON, Weapon.GAUSS])
@pytest.mark.parametrize("course", [(1.0, 0.37, 0.21), (0.61, 1.0, 0.43), (-0.83, 0.71, 0.55), (-1.0, -0.93, 0.87)])
def test_diagonal_shot_clears_all_foliage_on_its_path(weapon, course):
    s = hedge((14, 28, 14, 28, 2, 12), weapon=weapon)
    before, start = leaves(s), torch.tensor([20.6, 20.7, 4.3])
    vel = torch.tensor(course) / torch.tensor(course).norm() * SPEED[weapon]
    places = [start.tolist()]
    s.throw(weapon, 0, places[0], vel.tolist())
    for _ in range(2):
        places.append(s.wait().shot(weapon, 0)[0])
    passed = cells_on_the_way(*places[:2]) | cells_on_the_way(*places[1:])
    torn = before - leaves(s)
    assert passed - torn <= {(20, 20, 4)}, "left standing"  # the muzzle's cell is checked below
    assert len(torn) <= len(passed) + 4


def test_shot_fired_inside_foliage_clears_it():
    s = hedge((12, 13, 20, 21, 2, 3)).throw(Weapon.GAUSS, 0, (12.5, 20.5, 2.5), (40.0, 0.0, 1.0)).wait()
    assert leaves(s) == set()


def test_disabled_destruction_keeps_foliage():
    s = battle(("heavy",), ("medium",), (12, 13, 20, 21, 2, 3, Material.FOLIAGE), destruction=False)
    s.place(0, 5.5, 5.5).throw(Weapon.GAUSS, 0, (11.5, 20.5, 2.5), (40.0, 0.0, 0.0)).wait()
    assert leaves(s) == {(12, 20, 2)}


def test_total_by_voxel_sums_rows_of_a_voxel_and_marks_the_first():
    voxel, weight = torch.tensor([[7, 3, 7, 7]], dtype=torch.int32), torch.tensor([1.0, 2.0, 4.0, 8.0])
    counts = torch.tensor([[False, True, True, True]])
    total, first = total_by_voxel(voxel, counts, weight)
    assert total.tolist() == [[12.0, 2.0, 12.0, 12.0]] and first.tolist() == [[False, True, True, False]]
