"""Paths to every block of a map equal those of a plain search, in loops and in the dense form."""

import dataclasses

import torch

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.rules.roster import build_roster
from echelon.world import paths, walkways
from echelon.world.pool import make_maps

OFF = EnvConfig.small()
ON = dataclasses.replace(OFF, command=CommandConfig(enabled=True))
CPU = torch.device("cpu")
SEEDS = torch.tensor([5, 8])


def maps_of(config: EnvConfig):
    return make_maps(config, build_roster(config, CPU), SEEDS)


def test_disabled_orders_give_no_paths_and_the_same_maps():
    plain, maps = maps_of(OFF), maps_of(ON)
    assert plain.ways.shape == (2, 0, 40, 40) and maps.ways.shape == (2, 100, 40, 40)
    for name, value in plain.items():
        assert name == "ways" or torch.equal(value, maps.get(name)), name


def test_loops_and_sweeps_find_the_same_paths(monkeypatch):
    one = maps_of(ON)
    monkeypatch.setattr(paths, "loops_on", lambda device: False)
    other = maps_of(ON)
    for name, value in one.items():
        assert torch.equal(value, other.get(name)), name


def test_following_the_steps_reaches_the_block_centre():
    """From every column, the steps lead to a block in each part of the map, in at most as many steps as its length."""
    maps, batch = maps_of(ON), torch.arange(2)
    y, x = torch.meshgrid(torch.arange(40) + 0.5, torch.arange(40) + 0.5, indexing="ij")
    start = torch.stack((x, y), -1).view(1, -1, 2).repeat(2, 1, 1)
    for place in ((6.5, 6.5), (20.5, 33.5), (37.5, 10.5)):
        goal = torch.tensor(place).expand_as(start)
        at = start
        step, left = walkways.way_at(maps.ways, batch, at, goal, ON)
        assert left.max() < 120
        for _ in range(int(left.max())):
            at = at + step.sign()
            step, now = walkways.way_at(maps.ways, batch, at, goal, ON)
            assert (now <= left).all()
            left = now
        assert not step.any() and (left == 0).all()
        # All paths end in the same few columns, to which the widest hull can walk.
        assert all(len(own.unique(dim=0)) <= 33 for own in at)
        assert walkways.is_reachable(maps.ways, batch, at, ON).all()


def test_path_length_equals_the_zone_field():
    """The length equals the path field of a zone at the end of the path, on columns reachable in both directions."""
    maps = maps_of(ON)
    lava = (maps.material == int(Material.LAVA)).any(1)
    own = maps.ways[:, 45].int()
    is_end, common = (own & 15) == walkways.NO_STEP, (own & walkways.COMMON) != 0
    field = paths.walk_to(is_end, maps.solid, lava, ON.world.size_z)
    assert 0.3 < common.float().mean() < 0.9
    assert torch.equal((own >> walkways.LENGTH_AT)[common], ((field.cost + 9) // 10)[common])


def test_number_of_blocks_is_limited_on_large_maps():
    assert walkways.block_side(OFF.world) == 4 and walkways.num_ways(OFF) == 0 and walkways.num_ways(ON) == 100
    large = dataclasses.replace(EnvConfig.large(), command=CommandConfig(enabled=True))
    assert walkways.block_side(large.world) == 7 and walkways.num_ways(large) == 225
    assert walkways.goal_radius(ON) > 3 and walkways.goal_radius(large) > 1
