"""Zones: inside the map, level, and equally far from both teams."""

import numpy as np
import pytest
import torch

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.world import layout, paths
from echelon.world.pool import make_maps

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


@pytest.mark.parametrize("config", [EnvConfig.small(), EnvConfig.standard()], ids=["small", "standard"])
def test_the_zone_is_level_ground_inside_the_map(config: EnvConfig):
    world = config.world
    maps = make_maps(config, build_roster(config, CPU), torch.arange(12))
    x, y = np.meshgrid(np.arange(world.size_x) + 0.5, np.arange(world.size_y) + 0.5)
    for material, center, radius in zip(
        maps.material.numpy(), maps.zone_center.tolist(), maps.zone_radius.tolist(), strict=True
    ):
        assert 3.75 <= radius <= 11.25
        assert radius <= min(center) and center[0] + radius <= world.size_x and center[1] + radius <= world.size_y
        inside = (x - center[0]) ** 2 + (y - center[1]) ** 2 < radius**2
        assert (material[0][inside] == Material.DIRT).all()
        assert (material[1:, inside] == Material.AIR).all()


@pytest.mark.usual
def test_zone_does_not_overlap_spawns_if_there_is_room():
    config = EnvConfig.standard()
    maps = make_maps(config, build_roster(config, CPU), torch.arange(24))
    away = (maps.spawn_pos[..., :2] - maps.zone_center[:, None]).norm(dim=-1)
    assert (away > maps.zone_radius[:, None] + 1.75).all()


def test_both_teams_have_similar_walking_distances():
    config = EnvConfig.standard()
    seeds = torch.arange(32)
    maps = make_maps(config, build_roster(config, CPU), seeds)
    x, y = layout.arrange_spawns(seeds, config).anchor.unbind(-1)
    walk = maps.path_length[torch.arange(32)[:, None], y, x]
    unfair = (walk[:, 0] - walk[:, 1]).abs()
    assert unfair.median() < 2
    assert (unfair / walk.mean(1)).max() < 0.15


@pytest.mark.usual
def test_direct_lane_is_straight():
    """Walking to the zone's centre costs as much as over open ground, which the choice of candidates assumes."""
    config, seeds = EnvConfig.standard(), torch.arange(12)
    maps = make_maps(config, build_roster(config, CPU), seeds)
    places = layout.arrange_spawns(seeds, config)
    center = maps.zone_center.long()
    goal = torch.zeros_like(maps.solid, dtype=torch.bool)
    goal[seeds, center[:, 1], center[:, 0]] = True
    lava = (maps.material == Material.LAVA).any(1)
    cost = paths.walk_to(goal, maps.solid, lava, config.world.size_z).cost
    x, y = places.anchor.unbind(-1)
    straight = paths.octile_cost(center[:, None] - places.anchor)
    assert torch.equal(cost[seeds[:, None], y, x].long(), straight)


def test_cover_around_the_zone_leaves_gaps():
    world, seeds = WorldConfig(), torch.arange(32)
    material = torch.zeros(32, world.size_z, world.size_y, world.size_x, dtype=torch.uint8)
    cell, radius = torch.full((32, 2), 32), torch.linspace(*layout.ZONE_RADIUS, 32).long()
    layout.open_zone(material, layout.Zone(cell, radius), seeds, world)
    cover = material == Material.SOLID
    assert cover[:, 0].any() and cover[:, 1].any() and not cover[:, 2:].any()
    assert (cover[:, 0].flatten(1).sum(1) <= 4 * 9).all()
    assert not (cover[:, 0] & layout.Zone(cell, radius).disc(world)).any()


def test_each_team_has_two_lanes_for_the_widest_hull():
    start, end = torch.tensor([[4, 20]]), torch.tensor([[40, 20]])
    lane = layout.along_segment(start, end, WorldConfig())[0]
    assert lane[:, 4:41].sum(0).min() >= 6
    config, seeds = EnvConfig.standard(), torch.arange(16)
    places = layout.arrange_spawns(seeds, config)
    zone = layout.choose_zones(seeds, places, config.world)
    carved = layout.lanes(seeds, places, zone, config.world)
    direct = layout.along_segment(places.anchor[:, 0], zone.cell, config.world)
    direct |= layout.along_segment(places.anchor[:, 1], zone.cell, config.world)
    assert (carved & direct).equal(direct)
    assert ((carved & ~direct).flatten(1).sum(1) > 60).all()
