"""Generated maps: dependence on their inputs, and invariants of every map."""

import dataclasses

import pytest
import torch
from first_catalog import MATERIALS
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.rules.catalog import Material
from echelon.rules.config import BIOME_NAMES, EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.state import Maps
from echelon.world.pool import bit_columns, make_maps, make_pool, seen_from_above

CPU = torch.device("cpu")


def maps_of(config: EnvConfig, seeds: torch.Tensor) -> Maps:
    return make_maps(config, build_roster(config, seeds.device), seeds)


def assert_same(one: Maps, other: Maps) -> None:
    for name, value in one.items():
        assert torch.equal(value, other.get(name)), name


def hull_height_blocked(maps: Maps) -> float:
    """Return the share of columns with a solid voxel too high to step onto."""
    return ((maps.solid & 0b1110) != 0).float().mean().item()


def test_a_map_does_not_depend_on_its_batch():
    config, seeds = EnvConfig.small(), torch.arange(8) * 1_000_003 + 7
    whole, part = maps_of(config, seeds), maps_of(config, seeds[3:5])
    assert_same(whole[3:5], part)
    assert_same(maps_of(config, seeds.flip(0))[0], whole[7])


@pytest.mark.long
def test_a_map_does_not_depend_on_the_threads():
    """This takes seconds on idle cores, and longer on busy ones."""
    config, seeds, threads = EnvConfig.small(), torch.arange(24), torch.get_num_threads()
    columns = len(seeds) * config.world.size_x * config.world.size_y
    assert columns > 32_768, "below that, torch would not share the work"
    try:
        torch.set_num_threads(1)
        single = maps_of(config, seeds)
        torch.set_num_threads(2)
        assert_same(single, maps_of(config, seeds))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_map_does_not_depend_on_the_device():
    config, seeds = EnvConfig.standard(), torch.arange(8)
    assert_same(maps_of(config, seeds), maps_of(config, seeds.cuda()).cpu())


def test_seeds_make_different_maps():
    maps = maps_of(EnvConfig.small(), torch.arange(16))
    assert maps.material.flatten(1).unique(dim=0).shape[0] == 16


@pytest.mark.requirement("R55")
def test_the_pool_follows_the_map_seed():
    config = dataclasses.replace(EnvConfig.small(), map_pool=4)
    roster = build_roster(config, CPU)
    pool = make_pool(config, roster, CPU)
    assert pool.batch_size == (4,)
    assert_same(pool, make_pool(config, roster, CPU))
    other = make_pool(dataclasses.replace(config, map_seed=1), roster, CPU)
    assert not torch.equal(pool.material, other.material)


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (EnvConfig.small(), 32),
        (EnvConfig.standard(), 12),
        (EnvConfig.large(), 4),
        (dataclasses.replace(EnvConfig.small(), world=WorldConfig(32, 32, 6)), 24),
        (dataclasses.replace(EnvConfig.standard(), world=WorldConfig(36, 70, 31)), 8),
    ],
    ids=["small", "standard", "large", "tiny", "oblong"],
)
def test_every_map_is_consistent(config: EnvConfig, count: int):
    """All fields are finite, in range and of the right shape. `make_maps` itself raises if a spawn is cut off."""
    world, maps = config.world, maps_of(config, torch.arange(count) + 100)
    shape = (count, world.size_y, world.size_x)
    assert maps.material.shape == (count, world.size_z, world.size_y, world.size_x)
    assert maps.solid.shape == maps.opaque.shape == maps.path_length.shape == shape
    assert maps.solid.dtype == maps.opaque.dtype == torch.int32
    assert (maps.solid >= 0).all() and (maps.solid >> world.size_z == 0).all()
    assert maps.path_length.max() < 4 * (world.size_x + world.size_y)
    assert maps.path_length.min() == 0
    assert maps.telemetry.shape == (count, 16, 16)
    assert (maps.telemetry >= 0).all() and (maps.telemetry <= 1).all()
    for value in maps.values():
        assert value.isfinite().all()


@pytest.mark.parametrize(
    ("config", "count"),
    [
        pytest.param(EnvConfig.standard(), 1024, marks=pytest.mark.long, id="10v10"),
        pytest.param(EnvConfig.small(), 1024, marks=pytest.mark.long, id="5v5"),
        pytest.param(EnvConfig.small(), 128, id="5v5, few"),
    ],
)
def test_maps_are_connected_and_fair(config, count):
    """On 95 of 100 maps the mean path lengths of the teams differ by less than 15 %. `make_maps` raises if a spawn is
    cut off."""
    roster = build_roster(config, CPU)
    unfair = []
    for first in range(0, count, 128):
        maps = make_maps(config, roster, torch.arange(first, first + 128))
        x, y, _ = maps.spawn_pos.floor().long().unbind(-1)
        way = maps.path_length[torch.arange(128)[:, None], y, x]
        blue, red = way[:, ~roster.is_red].mean(1), way[:, roster.is_red].mean(1)
        unfair.append(2 * (blue - red).abs() / (blue + red))
    assert (torch.cat(unfair) < 0.15).float().mean() > 0.95


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    size=st.tuples(st.integers(32, 80), st.integers(32, 80), st.integers(6, 31)),
    biomes=st.lists(st.sampled_from(BIOME_NAMES), min_size=1, max_size=16, unique=True),
    difficulty=st.floats(0, 1),
    team=st.integers(1, 10),
    seed=st.integers(0, 2**32 - 64),
)
def test_maps_of_any_settings_are_connected(size, biomes, difficulty, team, seed):
    """Every spawn reaches the zone for all battles that fit the map. Other battles are rejected in one line."""
    world = WorldConfig(*size, biomes=tuple(biomes), difficulty=difficulty)
    mechs = ("heavy",) * team
    config = dataclasses.replace(EnvConfig.standard(), world=world, blue=mechs, red=mechs)
    maps = maps_of(config, torch.arange(6) + seed)
    assert maps.path_length.isfinite().all()


def test_difficulty_raises_obstacles():
    def blocked(difficulty: float) -> float:
        config = dataclasses.replace(EnvConfig.standard(), world=WorldConfig(difficulty=difficulty))
        return hull_height_blocked(maps_of(config, torch.arange(6)))

    shares = [blocked(difficulty) for difficulty in (0.0, 0.3, 0.6, 1.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.01
    assert 0.12 < shares[-1] < 0.25


def test_bit_columns_have_one_bit_per_blocking_voxel():
    material = torch.full((1, 4, 1, 2), int(Material.AIR), dtype=torch.uint8)
    material[0, :, 0, 0] = torch.tensor([Material.SOLID, Material.GLASS, Material.FOLIAGE, Material.AIR])
    material[0, :, 0, 1] = torch.tensor([Material.WATER, Material.AIR, Material.REINFORCED, Material.SOLID])
    solid = bit_columns(material, [MATERIALS[kind].solid for kind in Material])
    opaque = bit_columns(material, [MATERIALS[kind].opaque for kind in Material])
    assert solid.flatten().tolist() == [0b0011, 0b1100]
    assert opaque.flatten().tolist() == [0b0101, 0b1100]


def test_telemetry_is_the_mean_height_of_each_block():
    blocked = torch.zeros(1, 32, 32, dtype=torch.int32)
    blocked[0, 0, 0] = 0b1000  # a canopy of height 4 of 8 on one of the block's four columns
    blocked[0, 30:, 30:] = 0b11111111
    seen = seen_from_above(blocked, 8)
    assert seen[0, 0, 0] == 0.125
    assert seen[0, 15, 15] == 1
    assert seen.count_nonzero() == 2
