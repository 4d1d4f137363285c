"""Biomes. Each biome is a list of stamps (templates of structures), or a function registered by the user."""

import zlib
from collections.abc import Callable

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.rules.config import BIOME_NAMES, REGISTERED_BIOMES, WorldConfig, require_biome
from echelon.runtime.errors import require
from echelon.runtime.imports import is_redefined
from echelon.runtime.limits import LONGEST_NAME, check_function
from echelon.runtime.noise import Stream, bits
from echelon.world.draws import STAMPS_A_BIOME, Draw, cells, fractions, pick
from echelon.world.stamps import OPEN, Cut, Part, Stamp, box, disc, paint

SOLID, FOOT = Part(Material.SOLID), Part(Material.SOLID, top=1)
GLASS, REINFORCED, FOLIAGE = Part(Material.GLASS), Part(Material.REINFORCED), Part(Material.FOLIAGE)
SKY = Part(Material.AIR, bottom=1, top=OPEN)
BANK, WATER = Part(Material.SOLID, grow=1), Part(Material.WATER, top=1)
GATE = (Part(Material.DIRT, top=1, cut=Cut.CROSS), Part(Material.AIR, bottom=1, top=OPEN, cut=Cut.CROSS))
"""Passages to the middle from all four sides, under open sky."""
TUNNEL = (Part(Material.DIRT, top=1, cut=Cut.CROSS), Part(Material.AIR, bottom=1, top=7, cut=Cut.CROSS))
"""Passages as `GATE`, under a roof that the tallest hull fits below."""


def hollow(wall: int) -> tuple[Part, ...]:
    """Return the parts of an open yard inside walls of thickness `wall`."""
    return (Part(Material.DIRT, grow=-wall, top=1), Part(Material.AIR, grow=-wall, bottom=1, top=OPEN))


HOUSE = box((13, 13), 0.95, (5, 8), (5, 8), (4, 10), SOLID, Part(Material.GLASS, bottom=3, top=4))
KIOSK = box((12, 12), 0.6, (2, 4), (2, 3), (3, 3), GLASS)
FENCE = box((14, 10), 0.7, (5, 9), (1, 1), (2, 2), SOLID)

TANK = disc(13, 0.85, (5, 8), (5, 9), SOLID, Part(Material.REINFORCED, bottom=3, top=4))
BLAST_WALL = box((15, 11), 0.9, (7, 11), (2, 2), (4, 6), REINFORCED)
PIPE = box((20, 9), 0.7, (20, 20), (1, 1), (8, 8), Part(Material.SOLID, bottom=7))

STEPS = (Part(Material.SOLID, grow=2, top=1), Part(Material.SOLID, grow=1, top=2))
HALL = box((20, 18), 0.9, (11, 15), (9, 13), (6, 8), *STEPS, SOLID, *hollow(3), *GATE)
ROTUNDA = disc(17, 0.65, (9, 12), (8, 10), *STEPS, Part(Material.SOLID, top=6), Part(Material.GLASS, grow=-2))
OBELISK = box((9, 9), 0.5, (2, 2), (2, 2), (9, 13), Part(Material.SOLID, grow=1, top=1), REINFORCED)

TREE = disc(7, 0.85, (2, 3), (6, 9), Part(Material.FOLIAGE, grow=2, bottom=4), SOLID)
HEDGE = box((12, 8), 0.7, (5, 9), (1, 1), (2, 2), FOLIAGE)
LOG = box((12, 10), 0.85, (4, 7), (1, 2), (2, 2), SOLID)

PLATEAU = box((17, 17), 0.8, (9, 13), (8, 12), (2, 2), FOOT, Part(Material.SOLID, grow=-2))
BOULDER = disc(8, 0.7, (2, 4), (2, 4), SOLID)

TERRACES = (
    Part(Material.SOLID, top=5),
    Part(Material.GLASS, grow=-1, bottom=5, top=6),
    Part(Material.SOLID, grow=-2, bottom=5, top=9),
    Part(Material.GLASS, grow=-3, bottom=9, top=10),
    Part(Material.REINFORCED, grow=-4, bottom=9),
)
SPIRE = disc(24, 0.95, (15, 19), (14, 19), *TERRACES, *TUNNEL)
SPUR = disc(11, 0.5, (4, 6), (7, 12), SOLID, Part(Material.GLASS, grow=-1, bottom=6))
SKYBRIDGE = box((26, 13), 0.8, (26, 26), (2, 2), (9, 9), Part(Material.GLASS, bottom=8))

CANAL = box((24, 13), 0.95, (17, 19), (4, 6), (2, 2), BANK, SKY, WATER)
QUAY_WALL = box((13, 11), 0.8, (6, 10), (1, 2), (2, 4), SOLID)
PUMP_HOUSE = box((15, 15), 0.6, (4, 6), (4, 6), (4, 6), SOLID)

SKYLIGHT = Part(Material.GLASS, bottom=8, top=10, cut=Cut.CROSS)
VAULT = box((22, 22), 0.95, (17, 20), (17, 20), (10, 10), SOLID, Part(Material.REINFORCED, grow=-3), SKYLIGHT, *TUNNEL)
PILLAR = disc(9, 0.5, (2, 4), (5, 10), SOLID)

DUNE = disc(15, 0.85, (7, 11), (2, 2), Part(Material.GLASS, top=1), Part(Material.GLASS, grow=-2))
SHARD = box((7, 7), 0.55, (1, 2), (1, 2), (3, 8), GLASS)
ROCK = disc(14, 0.6, (3, 5), (3, 5), SOLID, Part(Material.GLASS, grow=-1, bottom=2))

KEEP = (Part(Material.SOLID, grow=-6, top=3), Part(Material.REINFORCED, grow=-7, top=6))
COMPOUND = box((24, 24), 0.95, (16, 20), (16, 20), (4, 4), REINFORCED, *hollow(2), *GATE, *KEEP)
BUNKER = box((12, 12), 0.75, (4, 6), (3, 5), (3, 4), REINFORCED, Part(Material.SOLID, grow=-1, bottom=2))
BARRICADE = box((11, 8), 0.8, (4, 6), (1, 1), (2, 2), SOLID)

POND = disc(16, 0.6, (6, 9), (1, 1), WATER)
UNDERGROWTH = disc(6, 0.7, (2, 4), (2, 3), FOLIAGE)
GIANT = disc(6, 0.95, (1, 2), (7, 12), Part(Material.FOLIAGE, grow=2, bottom=5), SOLID)
RUIN = box((22, 22), 0.35, (9, 11), (9, 11), (6, 6), *(Part(Material.SOLID, grow=-g, top=g + 1) for g in range(5)))

QUARRY = disc(
    29,
    0.95,
    (21, 25),
    (5, 5),
    SOLID,
    *(Part(Material.AIR, grow=-g, bottom=5 - g, top=OPEN) for g in (1, 2, 3, 4)),
    Part(Material.DIRT, grow=-4, top=1),
    *GATE,
)
SPOIL = box((12, 12), 0.7, (6, 8), (4, 5), (3, 4), Part(Material.SOLID, cut=Cut.RAMP))
CONVEYOR = box((24, 12), 0.6, (18, 22), (1, 1), (7, 7), Part(Material.SOLID, bottom=6))

LAVA_POOL = disc(14, 0.8, (5, 9), (1, 1), Part(Material.LAVA))
RIDGE = box((16, 12), 0.95, (7, 12), (3, 5), (5, 9), Part(Material.SOLID, grow=1, top=1), SOLID)
CRAG = disc(12, 0.6, (3, 5), (4, 7), Part(Material.SOLID, top=3), Part(Material.SOLID, grow=-1))

BEDS = (
    Part(Material.DIRT, grow=-1, top=1),
    Part(Material.AIR, grow=-1, bottom=1, top=OPEN),
    Part(Material.FOLIAGE, grow=-1, bottom=1, top=2),
    Part(Material.AIR, grow=-1, bottom=1, top=2, cut=Cut.STRIPES),
    Part(Material.WATER, grow=-1, top=1, cut=Cut.STRIPES),
)
GREENHOUSE = box((18, 10), 0.95, (11, 15), (6, 8), (4, 4), GLASS, *BEDS)
CISTERN = disc(
    12,
    0.5,
    (5, 7),
    (3, 3),
    SOLID,
    Part(Material.AIR, grow=-1, bottom=1, top=OPEN),
    Part(Material.WATER, grow=-1, top=1),
)

RACKS = box(
    (20, 16),
    0.95,
    (13, 17),
    (9, 13),
    (5, 5),
    Part(Material.REINFORCED),
    Part(Material.AIR, bottom=1, top=OPEN, cut=Cut.STRIPES),
)
COOLER = box((14, 14), 0.4, (4, 5), (4, 5), (6, 7), SOLID, Part(Material.GLASS, grow=-1, bottom=5))

DISH = disc(
    19,
    0.9,
    (11, 15),
    (6, 6),
    Part(Material.REINFORCED, bottom=5),
    Part(Material.AIR, grow=-1, bottom=5, top=OPEN),
    Part(Material.SOLID, grow=-2, bottom=4, top=5),
    Part(Material.SOLID, grow=-5, top=7),
)
MAST = box((11, 11), 0.5, (1, 1), (1, 1), (13, 18), Part(Material.SOLID, grow=1, top=2), REINFORCED)
CONTROL = box((16, 13), 0.6, (6, 9), (4, 5), (4, 4), SOLID, Part(Material.GLASS, bottom=2, top=3))

BIOMES: dict[str, tuple[Stamp, ...]] = {
    "urban_residential": (HOUSE, KIOSK, FENCE),
    "industrial_refinery": (TANK, BLAST_WALL, PIPE),
    "civic_government": (OBELISK, ROTUNDA, HALL),
    "forest_park": (LOG, HEDGE, TREE),
    "barrens": (PLATEAU, BOULDER),
    "arcology_spire": (SPUR, SPIRE, SKYBRIDGE),
    "sunken_canal": (PUMP_HOUSE, QUAY_WALL, CANAL),
    "geo_front": (PILLAR, VAULT),
    "glass_desert": (DUNE, ROCK, SHARD),
    "command_outpost": (BARRICADE, BUNKER, COMPOUND),
    "dense_jungle": (POND, RUIN, UNDERGROWTH, GIANT),
    "mining_pit": (SPOIL, QUARRY, CONVEYOR),
    "volcanic_ridge": (LAVA_POOL, CRAG, RIDGE),
    "hydroponic_lab": (CISTERN, GREENHOUSE),
    "server_farm": (COOLER, RACKS),
    "orbital_relay": (CONTROL, MAST, DISH),
}


Paint = Callable[[Tensor, Tensor, Tensor, WorldConfig], None]
"""Paint a user's biome in place: `paint(material, where, seeds, world)`.

Args:
    material: a `Material` per voxel: dirt at z = 0 and air above in the columns of the biome, `[M, Z, Y, X]` uint8.
    where: columns of the biome, `[M, Y, X]` bool. Changes in other columns are ignored.
    seeds: seeds of this biome, `[M]` int64. `draws` and `stamps.paint` accept them with any purpose.
    world: size and content of the maps.

A map must depend only on its own seed. The zone, lanes and spawns are cleared afterwards, so every map is walkable.
"""
PAINTERS: dict[str, Paint] = {}
"""Biomes registered by the user, keyed by name."""


def register_biome(name: str, paint: Paint) -> None:
    """Register a biome in this process, for use in `WorldConfig.biomes`.

    Configs, checkpoints and replays store only the name, so a program that reads them must register the biome first.

    Args:
        name: an identifier that no other biome has. If the same function is defined again, as by re-running a notebook
            cell, the new one replaces the earlier one.
        paint: function `paint(material, where, seeds, world)`, which writes materials into M maps in place; see
            `echelon.world.biomes.Paint`.

    Raises:
        ConfigError: if the name is not an identifier or is taken, or `paint` is not callable.
    """
    is_free = isinstance(name, str) and name not in BIOME_NAMES and is_redefined(PAINTERS.get(name, paint), paint)
    is_name = is_free and name.isidentifier() and len(name) <= LONGEST_NAME
    require(is_name, "the name of a biome", "an identifier that no other biome has", name)
    check_function(f"the paint of biome {name!r}", paint, "material, where, seeds, world")
    PAINTERS[name] = paint
    if name not in REGISTERED_BIOMES:
        REGISTERED_BIOMES.append(name)


def furnish(material: Tensor, biome: Tensor, seeds: Tensor, world: WorldConfig) -> None:
    """Build every biome on its columns, in place.

    Args:
        material: materials of the voxels, `[M, Z, Y, X]` uint8.
        biome: index into `world.biomes`, `[M, Y, X]` int64.
        seeds: seeds of the maps, `[M]` int64.
        world: size and content of the maps.
    """
    for index, name in enumerate(world.biomes):
        mask = biome == index
        maps = mask.flatten(1).any(1).nonzero().squeeze(1)  # Most maps contain only some of the biomes.
        if len(maps) == 0:
            continue
        voxels, columns, own_seeds = material[maps], mask[maps], seeds[maps]
        if name in BIOMES:
            first = Draw.STAMP + STAMPS_A_BIOME * BIOME_NAMES.index(name)
            for i, stamp in enumerate(BIOMES[name]):
                paint(voxels, stamp, columns, own_seeds, first + i, world)
        else:
            paint_registered(name, voxels, columns, own_seeds, world)
        material[maps] = voxels


def paint_registered(name: str, material: Tensor, where: Tensor, seeds: Tensor, world: WorldConfig) -> None:
    """Build a biome registered by the user, with arguments as in `Paint` and the seeds of the maps.

    The seeds of the biome depend on its name, but not on other registered biomes.
    """
    require_biome(name)  # Check again, because the config may come from another process.
    painted = material.clone()
    own_seeds = bits(seeds, zlib.crc32(name.encode()) >> 1, Stream.BIOME, 1)[:, 0]
    PAINTERS[name](painted, where, own_seeds, world)
    highest = int(painted.max())
    require(
        highest < len(Material), f"voxels of biome {name!r}", f"values of Material, 0..{len(Material) - 1}", highest
    )
    material.copy_(painted.where(where[:, None], material))


SPLIT_STRAY = 8
"""The lines between quadrants are at most size / SPLIT_STRAY away from the middle."""


def quadrants(seeds: Tensor, world: WorldConfig) -> Tensor:
    """Return four jittered quadrants with one biome each, as indices into `world.biomes`, `[M, Y, X]` int64."""
    stray = fractions(seeds, Draw.SPLIT, 2)
    stray_x, stray_y = world.size_x // SPLIT_STRAY, world.size_y // SPLIT_STRAY
    split_x = world.size_x // 2 + pick(stray[:, 0], -stray_x, stray_x)
    split_y = world.size_y // 2 + pick(stray[:, 1], -stray_y, stray_y)

    choices = torch.tensor([world.biomes.index(name) for name in world.biomes], device=seeds.device)
    biomes = choices[pick(fractions(seeds, Draw.BIOME, 4), 0, len(world.biomes) - 1)]  # [M, 4]

    x, y = cells(world.size_x, world.size_y, seeds.device)
    quadrant = 2 * (y >= split_y[:, None, None]).long() + (x >= split_x[:, None, None])
    return biomes.gather(1, quadrant.flatten(1)).view_as(quadrant)
