"""The pool of maps that all battles share, made from seeds before play."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from echelon.rules.catalog import HAZARDS, Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import Roster
from echelon.runtime import exact
from echelon.runtime.noise import Stream, bits
from echelon.state import TELEMETRY_CELLS, Maps, begun_whole, won_by_zone
from echelon.world import biomes, corridors, paths, spawns, stamps, ways, zones
from echelon.world.splits import placed


def make_pool(config: EnvConfig, roster: Roster, device: torch.device) -> Maps:
    """The maps of `config.map_seed`: `config.map_pool`, and `config.map_spares` behind them."""
    return make_maps(config, roster, pool_seeds(config, device))


def pool_seeds(config: EnvConfig, device: torch.device, renewal: int = 0) -> Tensor:
    """`[M]` int64: the seed of each map of the pool, and of those that take their places at the n-th renewal."""
    root = torch.full((1,), config.map_seed, dtype=torch.int64, device=device)
    return placed(bits(root, renewal, Stream.WORLD, config.map_pool + config.map_spares)[0], config.split)


BLOCK = 64
"""Maps a CPU makes at a time: more fall out of its caches (256 at once: 93 maps/s, in blocks 190)."""


def make_maps(config: EnvConfig, roster: Roster, seeds: Tensor) -> Maps:
    """One map for each of the seeds `[M]` int64, which are `placed` in the config's split, on their device.

    Map m depends on the configuration and seeds[m] alone, whatever stands beside it.
    """
    spawns.check_room(config)
    seeds = placed(seeds, config.split)
    blocks = seeds.split(BLOCK if seeds.device.type == "cpu" else len(seeds))
    return cast(Maps, torch.cat([make_block(config, roster, block) for block in blocks]))


def make_block(config: EnvConfig, roster: Roster, seeds: Tensor) -> Maps:
    world = config.world
    areas = spawns.arrange(seeds, config)
    zone = zones.choose(seeds, areas, world)

    material = bare_ground(seeds, world)
    biomes.furnish(material, biomes.quadrants(seeds, world), seeds, world)
    zones.open_zone(material, zone, seeds, world)
    # Canals get a causeway, lava a crossing.
    stamps.clear(material, corridors.lanes(seeds, areas, zone, world))
    spawns.open_spawns(material, areas, world)

    spawn_pos, spawn_yaw = spawns.stand(seeds, areas, zone.center_vox, roster, world)
    maps, field = assemble_maps(seeds, material, zone, spawn_pos, spawn_yaw, config, roster)
    check_connected(field.reached, spawn_pos, seeds)
    return maps


def assemble_maps(
    seeds: Tensor,
    material: Tensor,
    zone: zones.Zone,
    spawn_pos: Tensor,
    spawn_yaw: Tensor,
    config: EnvConfig,
    roster: Roster,
) -> tuple[Maps, paths.PathField]:
    """Maps of finished ground, and the ways to their zones; every mech begins whole and cool, and the zone
    decides.

    Args:
        seeds: `[M]` int64.
        material: `[M, Z, Y, X]` uint8, a Material.
        spawn_pos: `[M, N, 3]` vox, hull centres.
        spawn_yaw: `[M, N]` rad.
    """
    solid = bit_columns(material, [config.catalog.material(kind).solid for kind in Material])
    opaque = bit_columns(material, [config.catalog.material(kind).opaque for kind in Material])
    lava = (material == Material.LAVA).any(1)
    field = paths.walk_to(zone.disc(config.world), solid, lava, config.world.size_z)
    maps = Maps(
        seed=seeds,
        material=material,
        solid=solid,
        opaque=opaque,
        hazard=bit_columns(material, [kind in HAZARDS for kind in Material]),
        **begun_whole(spawn_pos, roster),
        spawn_yaw=spawn_yaw,
        zone_center=zone.center_vox,
        zone_radius=zone.radius_vox,
        path_length=field.length_vox,
        path_direction=field.direction,
        ways=ways.ways_on_foot(solid, lava, spawn_pos, config),
        telemetry=seen_from_above(solid | opaque, config.world.size_z),
        **won_by_zone(len(seeds), roster.num_mechs, seeds.device),
        batch_size=[len(seeds)],
    )
    return maps, field


def bare_ground(seeds: Tensor, world: WorldConfig) -> Tensor:
    """`[M, Z, Y, X]` uint8: a floor of DIRT, which mechs stand in, under AIR."""
    shape = (len(seeds), world.size_z, world.size_y, world.size_x)
    material = torch.full(shape, int(Material.AIR), dtype=torch.uint8, device=seeds.device)
    material[:, 0] = int(Material.DIRT)
    return material


def bit_columns(material: Tensor, blocks: list[bool]) -> Tensor:
    """`[M, Y, X]` int32, bit z set where the voxel at z of `[M, Z, Y, X]` is of a material that blocks."""
    table = torch.tensor(blocks, dtype=torch.int32, device=material.device)
    columns = torch.zeros_like(material[:, 0], dtype=torch.int32)
    for z in range(material.shape[1]):
        columns |= table[material[:, z].int()] << z
    return columns


def column_heights(columns: Tensor, size_z: int) -> Tensor:
    """`[M, Y, X]` int32 vox: top of the highest voxel whose bit is set in `columns [M, Y, X]`, 0 where none is."""
    height = torch.zeros_like(columns)
    for z in range(size_z):
        height = torch.where((columns >> z) & 1 == 1, z + 1, height)
    return height


def seen_from_above(blocked: Tensor, size_z: int) -> Tensor:
    """`[M, 16, 16]` 0..1: mean height of the columns of each block over the map's height.

    A column is as high as the highest bit of `blocked [M, Y, X]`, so a canopy counts like a tower.
    """
    height = column_heights(blocked, size_z)
    # Whole numbers up to the two divisions: sums over blocks, which overlap by a row where the sides are no multiple.
    total = F.pad(height.cumsum(1).cumsum(2), (1, 0, 1, 0))
    (top, bottom), (left, right) = (block_edges(side, height.device) for side in height.shape[1:])
    upper, lower = total[:, top], total[:, bottom]
    sums = lower[..., right] - lower[..., left] - upper[..., right] + upper[..., left]
    return exact.divide(sums.float() / (bottom - top)[:, None] / (right - left), size_z)


def block_edges(side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """`[16]` int64 first row of each block of `side` rows, and the row behind its last."""
    index = torch.arange(TELEMETRY_CELLS, device=device)
    return index * side // TELEMETRY_CELLS, ((index + 1) * side - 1) // TELEMETRY_CELLS + 1


def check_connected(reached: Tensor, spawn_pos: Tensor, seeds: Tensor) -> None:
    """Raise unless the widest hull can walk to the zone from every spawn. The direct lanes see to it."""
    x, y = spawn_pos[..., 0].long(), spawn_pos[..., 1].long()
    own_map = torch.arange(len(seeds), device=seeds.device)[:, None]
    cut_off = ~reached[own_map, y, x].all(1)
    if cut_off.any():
        raise RuntimeError(f"no way from a spawn to the zone on the maps of seeds {seeds[cut_off].tolist()}")
