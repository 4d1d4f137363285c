"""The zone of each map: where it lies, which columns it holds, and the low cover around it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.rules.config import WorldConfig
from echelon.runtime import exact
from echelon.world.draws import Draw, cells, chance, fractions, pick
from echelon.world.paths import octile_cost
from echelon.world.spawns import Spawns
from echelon.world.stamps import clear

GRAIN = 256
"""Zone sizes are whole numbers of 1/256 voxel, which float32 holds exactly."""
RADIUS = (15 * GRAIN // 4, 45 * GRAIN // 4)
"""7.5 vox * U(0.5, 1.5)."""
CANDIDATES = 64
APRON = 3 * GRAIN // 2
"""Ground levelled beyond the zone's edge."""
RING_DISTANCE = 4
"""From the zone's edge to the middle of a piece of cover, vox; rounding and half a piece take 3.9 of it."""
RING_SHARE = 0.8


class Zone(NamedTuple):
    """One zone a map, in whole numbers."""

    cell: Tensor  # [M, 2] int64, column x, y of the centre
    radius: Tensor  # [M] int64, 1/256 vox

    @property
    def center_vox(self) -> Tensor:
        return self.cell.float() + 0.5

    @property
    def radius_vox(self) -> Tensor:
        return self.radius.float() * (1 / GRAIN)

    def disc(self, world: WorldConfig, grow: int = 0) -> Tensor:
        """`[M, Y, X]` bool: columns whose middle is nearer than the radius, grown by `grow` 1/256 vox."""
        x, y = cells(world.size_x, world.size_y, self.cell.device)
        center_x, center_y = self.cell[:, :, None, None].unbind(1)
        distance_sq = ((x - center_x) ** 2 + (y - center_y) ** 2) * GRAIN**2
        return distance_sq < (self.radius[:, None, None] + grow) ** 2


def choose(seeds: Tensor, spawns: Spawns, world: WorldConfig) -> Zone:
    """Draw zones inside the map: first clear of both spawn areas, then equally far from both teams.

    The direct lane makes the straight way walkable, so the walking distance to a candidate's centre is about known
    before anything is built; a team's is that of its outermost mechs. Ties go to the first candidate.
    """
    radius = pick(fractions(seeds, Draw.ZONE_RADIUS, 1)[:, 0], *RADIUS)
    size = torch.tensor([world.size_x, world.size_y], device=seeds.device)
    within = (radius[:, None] + GRAIN - 1) // GRAIN
    low = torch.maximum(size // 4, within)[:, None]
    high = torch.minimum(size - 1 - size // 4, size - 1 - within)[:, None]
    draws = fractions(seeds, Draw.ZONE_CENTER, 2 * CANDIDATES).unflatten(1, (CANDIDATES, 2))
    cell = pick(draws, low, high)  # [M, CANDIDATES, 2]

    cost = exact.sum(octile_cost(cell[:, :, None, None] - spawns.corners[:, None]), -1)  # [M, CANDIDATES, 2 teams]
    unfair = (cost[..., 0] - cost[..., 1]).abs()
    spot = cell[:, :, None]
    distance = torch.maximum(spawns.low[:, None] - 1 - spot, spot - spawns.high[:, None]).amax(-1)
    overlap = exact.sum((within[:, None] - distance).clamp_min(0), -1)  # vox, at most
    badness = (overlap << 32) + unfair

    best = badness.amin(1, keepdim=True)
    first = exact.sum((badness == best).int().cumsum(1).eq(0), 1)
    return Zone(cell[torch.arange(len(seeds), device=seeds.device), first], radius)


def open_zone(material: Tensor, zone: Zone, seeds: Tensor, world: WorldConfig) -> None:
    """Level the zone, then raise low cover at four places around it, in place, in voxels `[M, Z, Y, X]`.

    Four pieces, straight or diagonal, leave gaps wider than the widest hull, which climbs those one high.
    """
    clear(material, zone.disc(world, APRON))
    draws = fractions(seeds, Draw.RING, 9)[:, :, None, None]
    distance = zone.radius[:, None, None] // GRAIN + RING_DISTANCE
    diagonal = distance * 181 >> 8  # 181 / 256 = cos 45°
    is_diagonal = chance(draws[:, 8], 0.5)

    x, y = cells(world.size_x, world.size_y, material.device)
    center_x, center_y = zone.cell[:, :, None, None].unbind(1)
    for side, (ahead, left) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1))):
        off_x = torch.where(is_diagonal, diagonal * (ahead - left), distance * ahead)
        off_y = torch.where(is_diagonal, diagonal * (ahead + left), distance * left)
        is_near = ((x - center_x - off_x).abs() <= 1) & ((y - center_y - off_y).abs() <= 1)
        is_cover = is_near & chance(draws[:, side], RING_SHARE * world.difficulty)
        material[:, 0].masked_fill_(is_cover, int(Material.SOLID))
        material[:, 1].masked_fill_(is_cover & chance(draws[:, 4 + side], 0.5), int(Material.SOLID))
