"""Which biome each column of a map belongs to."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules.config import WorldConfig
from echelon.world.draws import Draw, cells, fractions, pick

SPLIT_STRAY = 8
"""A split line strays from the middle by at most the map size over this."""


def quadrants(seeds: Tensor, world: WorldConfig) -> Tensor:
    """`[M, Y, X]` int64, an index of `world.biomes`: four jittered quadrants, a biome for each."""
    stray = fractions(seeds, Draw.SPLIT, 2)
    stray_x, stray_y = world.size_x // SPLIT_STRAY, world.size_y // SPLIT_STRAY
    split_x = world.size_x // 2 + pick(stray[:, 0], -stray_x, stray_x)
    split_y = world.size_y // 2 + pick(stray[:, 1], -stray_y, stray_y)

    choices = torch.tensor([world.biomes.index(name) for name in world.biomes], device=seeds.device)
    drawn = choices[pick(fractions(seeds, Draw.BIOME, 4), 0, len(world.biomes) - 1)]  # [M, 4]

    x, y = cells(world.size_x, world.size_y, seeds.device)
    quadrant = 2 * (y >= split_y[:, None, None]).long() + (x >= split_x[:, None, None])
    return drawn.gather(1, quadrant.flatten(1)).view_as(quadrant)
