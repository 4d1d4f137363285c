"""The biomes: each a short list of the stamps that furnish it."""

from __future__ import annotations

from torch import Tensor

from echelon.catalog import Material
from echelon.config import BIOME_NAMES, WorldConfig
from echelon.world.draws import STAMPS_A_BIOME, Draw
from echelon.world.stamps import Part, Stamp, box, disc, paint

SOLID, FOOT = Part(Material.SOLID), Part(Material.SOLID, top=1)
GLASS, REINFORCED = Part(Material.GLASS), Part(Material.REINFORCED)
SKY = Part(Material.AIR, bottom=1, top=31)
BANK, WATER = Part(Material.SOLID, grow=1), Part(Material.WATER, top=1)

HOUSE = box((13, 13), 0.95, (5, 8), (5, 8), (4, 10), SOLID, Part(Material.GLASS, bottom=3, top=4))
KIOSK = box((12, 12), 0.6, (2, 4), (2, 3), (3, 3), GLASS)
FENCE = box((14, 10), 0.7, (5, 9), (1, 1), (2, 2), SOLID)

TANK = disc(13, 0.85, (5, 8), (5, 9), SOLID, Part(Material.REINFORCED, bottom=3, top=4))
BLAST_WALL = box((15, 11), 0.9, (7, 11), (2, 2), (4, 6), REINFORCED)
PIPE = box((20, 9), 0.7, (20, 20), (1, 1), (8, 8), Part(Material.SOLID, bottom=7))

TREE = disc(7, 0.85, (2, 3), (6, 9), Part(Material.FOLIAGE, grow=2, bottom=4), SOLID)
HEDGE = box((12, 8), 0.7, (5, 9), (1, 1), (2, 2), Part(Material.FOLIAGE))
LOG = box((12, 10), 0.85, (4, 7), (1, 2), (2, 2), SOLID)

CANAL = box((24, 13), 0.95, (17, 19), (4, 6), (2, 2), BANK, SKY, WATER)
QUAY_WALL = box((13, 11), 0.8, (6, 10), (1, 2), (2, 4), SOLID)
PUMP_HOUSE = box((15, 15), 0.6, (4, 6), (4, 6), (4, 6), SOLID)

LAVA_POOL = disc(14, 0.8, (5, 9), (1, 1), Part(Material.LAVA))
RIDGE = box((16, 12), 0.95, (7, 12), (3, 5), (5, 9), Part(Material.SOLID, grow=1, top=1), SOLID)
CRAG = disc(12, 0.6, (3, 5), (4, 7), Part(Material.SOLID, top=3), Part(Material.SOLID, grow=-1))

PLATEAU = box((17, 17), 0.8, (9, 13), (8, 12), (2, 2), FOOT, Part(Material.SOLID, grow=-2))
BOULDER = disc(8, 0.7, (2, 4), (2, 4), SOLID)

BIOMES: dict[str, tuple[Stamp, ...]] = {
    "urban_residential": (HOUSE, KIOSK, FENCE),
    "industrial_refinery": (TANK, BLAST_WALL, PIPE),
    "forest_park": (LOG, HEDGE, TREE),
    "sunken_canal": (PUMP_HOUSE, QUAY_WALL, CANAL),
    "volcanic_ridge": (LAVA_POOL, CRAG, RIDGE),
    "barrens": (PLATEAU, BOULDER),
}


def furnish(material: Tensor, biome: Tensor, seeds: Tensor, world: WorldConfig) -> None:
    """Build every biome on its own columns, in place.

    Args:
        material: `[M, Z, Y, X]` uint8 voxels.
        biome: `[M, Y, X]` int64, an index of `BIOME_NAMES`.
        seeds: `[M]` int64.
    """
    for index, name in enumerate(BIOME_NAMES):
        if name not in world.biomes:
            continue
        for number, stamp in enumerate(BIOMES[name]):
            paint(material, stamp, biome == index, seeds, Draw.STAMP + STAMPS_A_BIOME * index + number, world)
