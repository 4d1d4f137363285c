"""Shots in flight. A shot flies 1.25 vox per substep, for 10 substeps."""

import dataclasses
import math

import pytest
import torch
from builders import duel, scene
from first_catalog import SMALL, Weapon

from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.sim.shots import sphere_entry

pytestmark = pytest.mark.quick

CANNON = (0, Act.TERTIARY, 1.0)


def first_hit_at(s, mech, substeps=14):
    """Return the substep in which `mech` loses hp after one shot of blue 0; None if it never does."""
    hp = s.value("hp", mech)
    for i in range(substeps):
        s.run(s.orders(CANNON) if i == 0 else s.orders())
        if s.value("hp", mech) < hp:
            return i
    return None


def test_a_shot_hits_the_sphere_of_its_target():
    # From muzzle to centre it is (8, 0, -1.2), of length 8.09. The sphere of a medium (radius 1.5) starts after
    # 6.59 vox, in the sixth substep of flight, which covers 6.25 to 7.5.
    s = duel(8, "medium", "medium")
    assert first_hit_at(s, 1) == 6
    assert s.value("hp", 1) == 150 - 8
    assert s.value("stability", 1) == 95
    assert s.value("heat", 1) == 0
    assert s.value("suppressed", 1) == 24
    assert (s.counted("hits", 0, Weapon.AUTOCANNON), s.counted("damage", 0)) == (1, 8)
    assert (s.state.shots.ttl == 0).all()


@pytest.mark.usual
def test_suppression_lasts_suppress_s():
    s = duel(8, "medium", "medium")
    first_hit_at(s, 1)
    s.run(s.orders(), 23)
    assert s.value("suppressed", 1) == 1
    assert s.run(s.orders()).value("suppressed", 1) == 0


def test_shot_flies_for_its_lifetime():
    s = duel(25, "medium", "medium")
    s.run(s.orders(CANNON))
    s.run(s.orders(), 9)
    pos, _, ttl = s.shot(Weapon.AUTOCANNON, 0)
    assert pos[0] == pytest.approx(10.5 + 9 * 1.25) and ttl == 1
    assert s.wait().shot(Weapon.AUTOCANNON, 0)[2] == 0


@pytest.mark.usual
@pytest.mark.parametrize(
    ("material", "stops"),
    [(Material.SOLID, True), (Material.GLASS, True), (Material.FOLIAGE, False), (Material.WATER, False)],
)
def test_solid_terrain_stops_a_shot(material, stops):
    s = duel(8, "medium", "medium", (14, 15, 20, 21, 1, 4, material))
    assert (first_hit_at(s, 1) is None) == stops


def test_terrain_behind_the_target_does_not_stop_the_shot():
    s = duel(8, "medium", "medium", (20, 21, 18, 24, 1, 6, Material.SOLID))
    assert first_hit_at(s, 1) == 6


@pytest.mark.usual
def test_wall_before_the_target_stops_the_shot_in_the_same_substep():
    # The fifth substep of flight covers x = 15.8 to 17.1, with the wall at 16 and the sphere at 17.
    def hit(*boxes):
        return first_hit_at(duel(8, "medium", "medium", *boxes).place(0, 10.9, 20.5), 1)

    assert hit() == 5
    assert hit((16, 17, 20, 21, 1, 4, Material.SOLID)) is None


def test_a_shot_at_a_wall_ends_there():
    s = duel(25, "medium", "medium", (14, 15, 20, 21, 1, 4, Material.SOLID))
    s.run(s.orders(CANNON))
    ttl = [s.wait().shot(Weapon.AUTOCANNON, 0)[2] for _ in range(3)]
    assert ttl == [9, 8, 0]  # x = 11.75, 13.0, then the wall at 14


def test_a_shot_ends_at_the_edge_of_the_map():
    s = duel(5, "medium", "medium").place(0, 36.5, 20.5)
    s.run(s.orders(CANNON))
    ttl = [s.wait().shot(Weapon.AUTOCANNON, 0)[2] for _ in range(3)]
    assert ttl == [9, 8, 0]  # x = 37.75, 39.0, then past 40


def test_the_first_enemy_along_the_path_is_hit():
    config = dataclasses.replace(SMALL, blue=("medium",), red=("heavy", "heavy"))
    s = scene(config).place(0, 10.5, 20.5).place(1, 20.5, 20.5, yaw=math.pi).place(2, 16.5, 20.5, yaw=math.pi)
    first_hit_at(s, 2)
    assert s.value("hp", 2) == 192 and s.value("hp", 1) == 200


def test_a_shot_passes_through_its_own_team():
    config = dataclasses.replace(SMALL, blue=("medium", "heavy"), red=("heavy",))
    s = scene(config).place(0, 10.5, 20.5).place(1, 14.5, 20.5).place(2, 19.5, 20.5)
    assert first_hit_at(s, 2) is not None
    assert s.value("hp", 1) == 200


def test_shot_passes_through_dead_mechs():
    config = dataclasses.replace(SMALL, blue=("medium",), red=("heavy", "heavy"))
    s = scene(config).place(0, 10.5, 20.5).place(1, 15.5, 20.5).place(2, 20.5, 20.5).set(1, hp=0)
    assert first_hit_at(s, 2) is not None


def test_a_shot_outlives_its_shooter():
    s = duel(8, "medium", "medium")
    s.run(s.orders(CANNON)).set(0, hp=0)
    s.run(s.orders(), 8)
    assert s.value("hp", 1) == 142 and s.counted("hits", 0, Weapon.AUTOCANNON) == 1


def test_aimed_shot_misses_a_target_that_walks_away():
    s = duel(10, "medium", "scout").place(1, 20.5, 20.5, yaw=1.5708)
    s.run(s.orders(CANNON, (1, Act.FORWARD, 1.0)))
    s.run(s.orders((1, Act.FORWARD, 1.0)), 10)
    assert s.value("hp", 1) == 60


def entry(start, end, center, radius=1.0):
    return sphere_entry(
        torch.tensor([[start]]), torch.tensor([[end]]), torch.tensor([[center]]), torch.tensor([radius])
    ).item()


def test_where_a_segment_enters_a_sphere():
    assert entry([0.0, 0, 0], [10.0, 0, 0], [5.0, 0, 0]) == pytest.approx(0.4)
    assert entry([0.0, 0, 0], [10.0, 0, 0], [5.0, 0.6, 0]) == pytest.approx(0.42)  # 5 - 0.8
    assert entry([0.0, 0, 0], [10.0, 0, 0], [5.0, 1.1, 0]) == float("inf")
    assert entry([0.0, 0, 0], [3.0, 0, 0], [5.0, 0, 0]) == float("inf")  # falls short
    assert entry([0.0, 0, 0], [-3.0, 0, 0], [5.0, 0, 0]) == float("inf")  # flies away
    assert entry([4.5, 0, 0], [9.0, 0, 0], [5.0, 0, 0]) == 0  # starts inside
