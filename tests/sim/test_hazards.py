"""Heat and damage of ground materials. A medium has 150 hp and dissipates 11 heat points per second."""

import pytest
from builders import duel

from echelon.rules.actions import Act
from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick


def standing_in(material, hull="medium", **values):
    """Return a scene with a mech at (10.5, 20.5) in a pool of `material`, far from other mechs."""
    return duel(25, hull, "medium", (5, 16, 15, 26, 0, 1, material)).set(0, **values)


@pytest.mark.usual
@pytest.mark.parametrize(
    ("material", "heat", "hp"),
    [
        (Material.LAVA, 50 + 40 - 11, 150 - 5),
        (Material.DEBRIS_FIELD, 50 + 20 - 11, 150 - 1.25),
        (Material.WATER, 50 - 30 - 11, 150),
        (Material.DIRT, 50 - 11, 150),
    ],
)
def test_heat_and_damage_per_second_of_each_material(material, heat, hp):
    scene = standing_in(material, heat=50)
    scene.run(scene.orders(), 20)
    assert scene.value("heat", 0) == pytest.approx(heat, abs=1e-3)
    assert scene.value("hp", 0) == pytest.approx(hp, abs=1e-3)


def test_water_cools_to_zero_at_most():
    scene = standing_in(Material.WATER, heat=1)
    assert scene.run(scene.orders()).value("heat", 0) == 0


def test_lava_heats_to_twice_the_capacity_at_most():
    scene = standing_in(Material.LAVA, heat=200)
    assert scene.run(scene.orders()).value("heat", 0) == pytest.approx(200 - 0.55)


def test_water_slows():
    scene = standing_in(Material.WATER)
    scene.run(scene.orders((0, Act.FORWARD, 1.0)), 5)
    assert scene.vel(0)[0] == pytest.approx(5.5 * 0.6 * 0.98)


def test_material_under_the_hull_centre_counts():
    scene = standing_in(Material.LAVA)
    scene.place(0, 16.1, 20.5).run(scene.orders())  # its left half hangs over lava, its centre does not
    assert scene.value("hp", 0) == 150
    scene.place(0, 15.9, 20.5).run(scene.orders())
    assert scene.value("hp", 0) == 149.75


def test_mech_above_lava_does_not_burn():
    scene = standing_in(Material.LAVA).place(0, 10.5, 20.5, bottom=1.2)
    scene.run(scene.orders())
    assert (scene.value("hp", 0), scene.value("heat", 0)) == (150, 0)


def test_death_by_lava_is_not_credited():
    scene = standing_in(Material.LAVA, hp=0.2)
    scene.run(scene.orders((0, Act.FORWARD, 1.0)))
    assert scene.value("hp", 0) == 0
    assert scene.pos(0)[0] == 10.5  # it died before it could move
    assert scene.state.tally.kills.sum() == scene.state.tally.team_kills.sum() == 0


def test_dead_mechs_do_not_burn():
    scene = standing_in(Material.LAVA, hp=0, heat=0)
    scene.run(scene.orders(), 3)
    assert (scene.value("hp", 0), scene.value("heat", 0)) == (0, 0)
