"""Wrecks of dead mechs: SOLID_DEBRIS with some probability, otherwise a burning DEBRIS_FIELD.

A heavy of 3.5 x 3.5 at (10.5, 20.5) covers the cells 8..12 x 18..22.
"""

import pytest
import torch
from builders import battle, duel
from builders import scene as build
from first_catalog import SMALL, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.sim.sight import enemy_lines

pytestmark = pytest.mark.quick

SOLID, BURNING = Material.SOLID_DEBRIS, Material.DEBRIS_FIELD


def wrecks(s):
    """Return the cells that wrecks fill, and their materials."""
    now, height = s.materials(), torch.arange(s.sim_model.config.world.size_z)[:, None, None]
    filled = (s.state.terrain.rubble[0] >> height & 1) == 1  # [Z, Y, X]
    return {(x, y, z): Material(now[z, y, x].item()) for z, y, x in filled.nonzero().tolist()}


def box(x0, x1, y0, y1, z0, z1):
    return {(x, y, z) for x in range(x0, x1) for y in range(y0, y1) for z in range(z0, z1)}


HEAVY_WRECK = box(8, 13, 18, 23, 0, 1)


def dead(hull="heavy", *boxes, **at):
    """Return a scene with a dead mech at (10.5, 20.5), far from other mechs."""
    return duel(25, hull, "medium", *boxes).place(0, 10.5, 20.5, **at).set(0, hp=0)


@pytest.mark.parametrize(("hull", "chance"), [("scout", 0.1), ("light", 0.3), ("medium", 0.6), ("heavy", 0.9)])
def test_wreck_is_solid_with_the_chance_of_its_hull(hull, chance):
    assert set(wrecks(dead(hull).wait(wreck=chance - 0.01)).values()) == {SOLID}
    assert set(wrecks(dead(hull).wait(wreck=chance + 0.01)).values()) == {BURNING}


@pytest.mark.parametrize(
    ("hull", "cells"),
    [
        ("heavy", HEAVY_WRECK),
        ("medium", box(9, 12, 19, 22, 0, 1)),
        ("light", box(9, 12, 19, 22, 0, 1)),  # 9.75 to 11.25
        ("scout", box(9, 12, 19, 22, 0, 1)),  # 9.9 to 11.1
    ],
)
def test_a_wreck_covers_the_ground_under_its_hull(hull, cells):
    assert wrecks(dead(hull).wait(wreck=0.0)) == dict.fromkeys(cells, SOLID)


def test_mech_that_dies_in_the_air_leaves_its_wreck_on_the_ground():
    s = dead("scout", bottom=5.0).wait(wreck=0.0)
    assert wrecks(s) == dict.fromkeys(box(9, 12, 19, 22, 0, 1), SOLID)


def test_wreck_lies_on_the_highest_solid_voxel_below():
    s = dead("scout", (9, 11, 19, 22, 0, 3, Material.SOLID), (9, 11, 19, 22, 4, 9, Material.SOLID), bottom=3.5)
    on_top, beside = box(9, 11, 19, 22, 3, 4), box(11, 12, 19, 22, 0, 1)
    assert wrecks(s.wait(wreck=0.0)) == dict.fromkeys(on_top | beside, SOLID)


@pytest.mark.parametrize("luck", [0.0, 1.0])
def test_wrecks_do_not_pile_up(luck):
    s = battle(("heavy", "heavy"), ("medium",)).place(0, 10.5, 20.5).set(0, hp=0).place(2, 35.5, 35.5)
    s.place(1, 5.5, 5.5).wait(wreck=luck)
    assert set(wrecks(s)) == HEAVY_WRECK
    s.place(1, 10.5, 20.5, bottom=1.0).set(1, hp=0).wait(wreck=0.0)
    assert s.state.mechs.wrecked.tolist() == [[True, True, False]] and set(wrecks(s)) == HEAVY_WRECK


def test_solid_wreck_blocks_shots_and_sight_a_burning_wreck_neither():
    assert dead().wait(wreck=0.0).blocks(10, 20, 0) == (True, True)
    assert dead().wait(wreck=1.0).blocks(10, 20, 0) == (False, False)


@pytest.mark.parametrize(
    "kept",
    [
        Material.LAVA,
        Material.WATER,
        Material.GLASS,
        Material.REINFORCED,
        Material.SOLID,
        Material.DEBRIS_FIELD,
        Material.FOLIAGE,
    ],
)
@pytest.mark.parametrize("luck", [0.0, 1.0])
def test_wreck_fills_only_air_and_dirt(kept, luck):
    s = dead("heavy", (9, 11, 19, 21, 0, 1, kept)).wait(wreck=luck)
    assert set(wrecks(s)) - box(9, 11, 19, 21, 1, 2) == HEAVY_WRECK - box(9, 11, 19, 21, 0, 1)
    assert s.material(10, 20, 0) == kept


@pytest.mark.usual
def test_wreck_does_not_fill_a_living_mech():
    # The scout extends from 12.3 to 13.5, so its box has cells 12 and 13 along x, 20 and 21 along y, 0 and 1 along z.
    s = battle(("heavy", "scout"), ("medium",)).place(0, 10.5, 20.5).set(0, hp=0).place(2, 35.5, 35.5)
    s.place(1, 12.9, 21.0).wait(wreck=0.0)
    assert set(wrecks(s)) == HEAVY_WRECK - box(12, 14, 20, 22, 0, 1)
    x = s.run(s.orders((1, Act.FORWARD, 1.0)), 10).pos(1)[0]
    assert x == pytest.approx(12.9 + 0.5 * 7 * 0.98)  # the scout walks away


def test_dead_mechs_do_not_block_a_wreck():
    s = battle(("heavy", "scout"), ("medium",)).place(0, 10.5, 20.5).set(0, hp=0).place(2, 35.5, 35.5)
    s.place(1, 12.9, 21.0).set(1, hp=0).wait(wreck=0.0)
    assert set(wrecks(s)) == HEAVY_WRECK


def test_wreck_lies_where_its_mech_died_in_the_same_substep():
    s = duel(7, "medium", "medium").set(1, hp=5)
    s.run(s.orders((0, Act.PRIMARY, 1.0)), wreck=0.0)
    assert set(wrecks(s)) == box(16, 19, 19, 22, 0, 1)
    assert s.state.mechs.wrecked.tolist() == [[False, True]]


def test_a_wreck_is_laid_once():
    s = dead().wait(wreck=1.0)
    assert s.state.mechs.wrecked.tolist() == [[True, False]]
    s.wait(5, wreck=0.0)
    assert wrecks(s) == dict.fromkeys(HEAVY_WRECK, BURNING)


def test_a_broken_wreck_is_not_laid_again():
    s = dead().wait(wreck=0.0)
    for _ in range(4):
        s.throw(Weapon.GAUSS, 0, (7.7, 20.5, 0.5), (40.0, 0.0, 0.0), ttl=1).wait()
    assert s.material(8, 20, 0) == Material.DIRT and s.blocks(8, 20, 0) == (False, False)
    assert set(wrecks(s.wait(3, wreck=0.0))) == HEAVY_WRECK - {(8, 20, 0)}


def test_wreck_has_the_hp_of_solid_debris():
    s = dead().wait(wreck=0.0)
    for lost in (50, 100, 150):
        s.throw(Weapon.GAUSS, 0, (7.7, 20.5, 0.5), (40.0, 0.0, 0.0), ttl=1).wait()
        assert s.worn(8, 20, 0) == lost and s.material(8, 20, 0) == SOLID


def test_wreck_refills_broken_voxels_undamaged():
    s = duel(25, "heavy", "medium", (8, 9, 20, 21, 0, 1, Material.GLASS)).place(0, 10.5, 20.5)
    s.throw(Weapon.GAUSS, 0, (7.7, 20.5, 0.5), (40.0, 0.0, 0.0), ttl=1).wait()
    assert s.material(8, 20, 0) == Material.AIR
    s.set(0, hp=0).wait(wreck=0.0)
    assert s.material(8, 20, 0) == SOLID and s.worn(8, 20, 0) == 0


def test_highest_priority_lays_its_wreck_first():
    s = battle(("heavy", "heavy"), ("medium",)).place(2, 35.5, 35.5)
    s.place(0, 10.5, 20.5).place(1, 20.5, 20.5).set(0, hp=0).set(1, hp=0)
    s.wait(wreck=0.0, priority=[0.2, 0.7, 0.9])
    assert s.state.mechs.wrecked.tolist() == [[False, True, False]]
    assert set(wrecks(s)) == box(18, 23, 18, 23, 0, 1)
    s.wait(wreck=1.0)
    assert s.state.mechs.wrecked.tolist() == [[True, True, False]]
    assert s.material(10, 20, 0) == BURNING and s.material(20, 20, 0) == SOLID


def test_each_wreck_has_its_own_random_sample():
    s = battle(("heavy", "heavy"), ("medium",)).place(2, 35.5, 35.5)
    s.place(0, 10.5, 20.5).place(1, 20.5, 20.5).set(0, hp=0).set(1, hp=0)
    s.wait(2, wreck=[0.95, 0.85, 0.0])
    assert s.material(10, 20, 0) == BURNING and s.material(20, 20, 0) == SOLID


def test_overlapping_wrecks_keep_the_first():
    s = battle(("heavy", "heavy"), ("medium",)).place(2, 35.5, 35.5)
    s.place(0, 10.5, 20.5).place(1, 14.0, 20.5).set(0, hp=0).set(1, hp=0)  # both boxes contain cell 12 along x
    s.wait(2, wreck=[0.0, 1.0, 1.0])
    assert s.material(12, 20, 0) == SOLID and s.material(13, 20, 0) == BURNING
    assert s.blocks(12, 20, 0) == (True, True)


def test_each_battle_lays_its_own_wreck():
    s = build(SMALL, batch=2).place(0, 10.5, 20.5)
    s.state.mechs.hp[1, 0] = 0
    s.wait(wreck=0.0)
    assert not s.state.terrain.rubble[0].any() and s.state.terrain.rubble[1].any()


# Effects of wrecks on living mechs


@pytest.mark.parametrize(
    ("luck", "hull", "clear"), [(0.0, "scout", False), (1.0, "scout", True), (0.0, "medium", True)]
)
def test_a_solid_wreck_hides_scouts_alone(luck, hull, clear):
    s = battle(("heavy", hull), (hull,)).place(0, 15.5, 20.5).set(0, hp=0)
    s.place(1, 10.5, 20.5).place(2, 20.5, 20.5).wait(wreck=luck)
    assert enemy_lines(s.state, s.sim_model, 60.0)[0, 1, 2] == clear


@pytest.mark.usual
@pytest.mark.parametrize("hull", ["scout", "light", "medium", "heavy"])
def test_any_hull_walks_over_a_solid_wreck(hull):
    s = battle(("heavy", hull), ("medium",)).place(0, 15.5, 20.5).set(0, hp=0).place(2, 35.5, 35.5)
    s.place(1, 10.5, 20.5).wait(wreck=0.0)
    ahead = s.orders((1, Act.FORWARD, 1.0))
    assert max(s.run(ahead).bottom(1) for _ in range(80)) >= 1.0
    assert s.pos(1)[0] > 19 and s.bottom(1) < 1


@pytest.mark.usual
def test_burning_wreck_damages_a_mech_in_it():
    s = dead().wait(wreck=1.0).place(1, 10.5, 20.5).set(1, heat=50)
    s.wait(20)
    assert s.value("hp", 1) == pytest.approx(150 - 1.25, abs=1e-3)
    assert s.value("heat", 1) == pytest.approx(50 + 20 - 11, abs=1e-3)


@pytest.mark.usual
def test_mech_on_a_solid_wreck_does_not_burn():
    s = dead().wait(wreck=0.0).place(1, 10.5, 20.5, bottom=1.0).set(1, heat=50)
    s.wait(20)
    assert s.value("hp", 1) == 150 and s.value("heat", 1) == pytest.approx(39, abs=1e-3)
    assert s.bottom(1) == pytest.approx(1.0, abs=0.03)


@pytest.mark.usual
@pytest.mark.parametrize(("luck", "lost"), [(0.0, 0), (1.0, 4)])  # half of the damage, because it is a leg hit
def test_a_solid_wreck_stops_shots(luck, lost):
    s = battle(("heavy", "medium"), ("heavy",)).place(0, 15.5, 20.5).set(0, hp=0)
    s.place(1, 5.5, 5.5).place(2, 20.5, 20.5, yaw=3.14).wait(wreck=luck)
    s.throw(Weapon.AUTOCANNON, 1, (12.5, 20.5, 0.7), (25.0, 0.0, 0.0)).wait(8)
    assert s.value("hp", 2) == 200 - lost


def test_disabled_destruction_leaves_no_wrecks():
    s = battle(("heavy",), ("medium",), destruction=False).place(0, 10.5, 20.5).set(0, hp=0)
    s.wait(3, wreck=0.0)
    assert wrecks(s) == {} and s.blocks(10, 20, 0) == (False, False)
