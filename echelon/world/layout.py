"""Layout of a map: spawns, zone, and the lanes that lead each team to the zone.

Teams start in opposite corners, point-symmetric about the middle of the map. Low cover surrounds the zone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import Roster
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.world.draws import Draw, cells, chance, fractions, pick
from echelon.world.paths import octile_cost
from echelon.world.stamps import clear

COLUMNS = 5
SPACING = 4.25
SPAWN_EDGE = 3
"""Distance of the first mech's centre from the border of the spawn area, vox. Every hull fits inside the area."""
SPAWN_WIDTH = int(2 * SPAWN_EDGE + (COLUMNS - 1) * SPACING)
JITTER_STEPS = 64
"""Maximum jitter of a spawn along an axis, in steps of 1/256 vox: 0.25 vox. Integer steps keep every sum exact."""
YAW_STEPS = 150
"""Maximum deviation of a spawn's heading from the direction to the zone, in steps of 1/1000 rad."""
SMALLEST_ZONE = 8
"""Diameter of the smallest zone, in whole voxels."""


class Spawns(NamedTuple):
    """The two spawn areas of each map. Team 0 is blue."""

    is_turned: Tensor  # [M] bool, spawn rows run along y instead of x
    is_flipped: Tensor  # [M, 2] bool, blue starts at the far end of x, and of y
    low: Tensor  # [M, 2 teams, 2] int64, first (x, y) column of each team's area
    high: Tensor  # [M, 2 teams, 2] int64, last (x, y) column of each team's area, plus 1
    anchor: Tensor  # [M, 2 teams, 2] int64, (x, y) column where each team's lanes start

    @property
    def corners(self) -> Tensor:
        """[M, 2 teams, 4, 2] int64: columns x, y of the four outermost spawn places."""
        near, far = self.low + SPAWN_EDGE, self.high - 1 - SPAWN_EDGE
        x = torch.stack((near[..., 0], near[..., 0], far[..., 0], far[..., 0]), -1)
        y = torch.stack((near[..., 1], far[..., 1], near[..., 1], far[..., 1]), -1)
        return torch.stack((x, y), -1)


def area_depth(config: EnvConfig) -> int:
    """Return the depth of a spawn area in columns. Both teams get an area of the same depth, that of the larger
    team."""
    rows = math.ceil(max(len(config.blue), len(config.red)) / COLUMNS)
    return math.ceil(2 * SPAWN_EDGE + (rows - 1) * SPACING)


def check_room(config: EnvConfig) -> None:
    """Raise `ConfigError` unless both spawn areas and the smallest zone fit in a line along the longer side of the
    map."""
    world, needed = config.world, 2 * area_depth(config) + SMALLEST_ZONE
    longest = world.longest_side
    limit = f">= {needed} vox for {len(config.blue)} blue and {len(config.red)} red mechs and a zone"
    require(longest >= needed, "the larger of WorldConfig.size_x, WorldConfig.size_y", limit, longest)


def arrange_spawns(seeds: Tensor, config: EnvConfig) -> Spawns:
    """Draw the corners for seeds `[M]`: flips in x and y, and a quarter turn if both orientations fit."""
    world, depth = config.world, area_depth(config)
    needed = 2 * depth + SMALLEST_ZONE
    draws = fractions(seeds, Draw.CORNER, 3)
    is_flipped = chance(draws[:, :2], 0.5)
    fits_upright, fits_turned = world.size_y >= needed, world.size_x >= needed
    is_turned = (chance(draws[:, 2], 0.5) & fits_turned) | (not fits_upright)

    def per_axis(wide: int, deep: int) -> Tensor:
        """Return lengths along x and y, `[M, 2]`, given lengths along a row of spawn places and across the rows."""
        upright = torch.tensor([wide, deep], device=seeds.device)
        return torch.where(is_turned[:, None], upright.flip(0), upright)

    size = torch.tensor([world.size_x, world.size_y], device=seeds.device)
    extent, middle = per_axis(SPAWN_WIDTH, depth), per_axis(SPAWN_WIDTH // 2, depth // 2)
    low = torch.where(is_flipped, size - extent, 0)
    high = low + extent
    anchor = torch.where(is_flipped, size - 1 - middle, middle)
    return Spawns(
        is_turned,
        is_flipped,
        low=torch.stack((low, size - high), 1),
        high=torch.stack((high, size - low), 1),
        anchor=torch.stack((anchor, size - 1 - anchor), 1),
    )


def open_spawns(material: Tensor, spawns: Spawns, world: WorldConfig) -> None:
    """Clear both spawn areas of voxels `[M, Z, Y, X]`, in place."""
    x, y = cells(world.size_x, world.size_y, material.device)
    for low, high in zip(spawns.low.unbind(1), spawns.high.unbind(1), strict=True):
        (low_x, low_y), (high_x, high_y) = low[:, :, None, None].unbind(1), high[:, :, None, None].unbind(1)
        clear(material, (x >= low_x) & (x < high_x) & (y >= low_y) & (y < high_y))


def place_mechs(
    seeds: Tensor, spawns: Spawns, zone_center: Tensor, roster: Roster, world: WorldConfig
) -> tuple[Tensor, Tensor]:
    """Return hull centres `[M, N, 3]` vox on the ground, and headings `[M, N]` rad towards the zone `[M, 2]` vox.

    Mech k of a team gets place k of a grid with five columns, so each pack fills one row.
    """
    device, mechs = seeds.device, roster.num_mechs
    index = torch.arange(mechs, device=device)
    index_in_team = torch.where(roster.is_red, index - roster.num_blue, index)
    upright = (
        SPAWN_EDGE + SPACING * torch.stack((index_in_team % COLUMNS, index_in_team // COLUMNS), -1).float()
    )  # [N, 2]
    grid = torch.where(spawns.is_turned[:, None, None], upright.flip(-1), upright)

    size = torch.tensor([world.size_x, world.size_y], device=device)
    far_end = spawns.is_flipped[:, None] ^ roster.is_red[:, None]  # [M, N, 2]
    draws = fractions(seeds, Draw.SPAWN_JITTER, 2 * mechs).unflatten(1, (mechs, 2))
    jitter = pick(draws, -JITTER_STEPS, JITTER_STEPS).float() * (0.25 / JITTER_STEPS)
    position = torch.where(far_end, size - grid, grid) + jitter
    height = roster.half_size[:, 2].expand(len(seeds), mechs)

    to_zone = zone_center[:, None] - position
    stray = exact.divide(pick(fractions(seeds, Draw.SPAWN_YAW, mechs), -YAW_STEPS, YAW_STEPS).float(), 1000)
    yaw = exact.atan2(to_zone[..., 1], to_zone[..., 0]) + stray
    return torch.cat((position, height[..., None]), -1), yaw


GRAIN = 256
"""Zone sizes are integers in units of 1/256 vox, which float32 represents exactly."""
ZONE_RADIUS = (15 * GRAIN // 4, 45 * GRAIN // 4)
"""7.5 vox * U(0.5, 1.5)."""
CANDIDATES = 64
APRON = 3 * GRAIN // 2
"""Width of the cleared ground around the zone, in 1/256 vox."""
RING_DISTANCE = 4
"""Distance from the zone's edge to the centre of a piece of cover, vox. Rounding and half a piece need 3.9 of it."""
RING_SHARE = 0.8


class Zone(NamedTuple):
    """The zones of M maps, as integers."""

    cell: Tensor  # [M, 2] int64, (x, y) column of the zone's centre
    radius: Tensor  # [M] int64, 1/256 vox

    @property
    def center_vox(self) -> Tensor:
        return self.cell.float() + 0.5

    @property
    def radius_vox(self) -> Tensor:
        return self.radius.float() * (1 / GRAIN)

    def disc(self, world: WorldConfig, grow: int = 0) -> Tensor:
        """Return the columns whose centre is within the radius plus `grow` / 256 vox, `[M, Y, X]` bool."""
        x, y = cells(world.size_x, world.size_y, self.cell.device)
        center_x, center_y = self.cell[:, :, None, None].unbind(1)
        distance_sq = ((x - center_x) ** 2 + (y - center_y) ** 2) * GRAIN**2
        return distance_sq < (self.radius[:, None, None] + grow) ** 2


def choose_zones(seeds: Tensor, spawns: Spawns, world: WorldConfig) -> Zone:
    """Choose for each map the candidate with the least overlap with spawn areas, then the fairest distances.

    The fairest zone has the most equal walking distances for the outermost mechs of both teams. The direct lanes will
    be walkable, so distances over open ground are close to the final walking distances. Among equal candidates, the
    first one is chosen.
    """
    radius = pick(fractions(seeds, Draw.ZONE_RADIUS, 1)[:, 0], *ZONE_RADIUS)
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
    """Clear the zone, then add low cover at four places around it, in voxels `[M, Z, Y, X]`, in place.

    The gaps between the four pieces are wider than the widest hull, which can also step onto cover one voxel high.
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


HALF_WIDTH_SQ = 13
"""Square of half a lane's width, vox². Columns of a straight path are up to half a voxel off the line, and the corners
of the widest hull's 5x5 columns are 2.83 vox further: 3.33 < sqrt(13), so the widest hull fits into every lane."""
FLANK_SIXTEENTHS = (6, 10)
"""Sideways offset of a flank lane's turning point, in sixteenths of the direct distance."""
LANE_EDGE = 4
"""Minimum distance of a flank lane's turning point from the map's edge, in columns."""


def along_segment(start: Tensor, end: Tensor, world: WorldConfig) -> Tensor:
    """Return the columns of a lane, `[M, Y, X]` bool, from column `start` to column `end`, `[M, 2]` int64 x, y each."""
    x, y = cells(world.size_x, world.size_y, start.device)
    start_x, start_y = start[:, :, None, None].unbind(1)
    way_x, way_y = (end - start)[:, :, None, None].unbind(1)
    off_x, off_y = x - start_x, y - start_y
    length_sq = way_x**2 + way_y**2
    ahead = off_x * way_x + off_y * way_y
    aside = off_x * way_y - off_y * way_x
    is_within = (ahead >= 0) & (ahead <= length_sq) & (aside**2 <= HALF_WIDTH_SQ * length_sq)
    at_start = off_x**2 + off_y**2 <= HALF_WIDTH_SQ
    at_end = (off_x - way_x) ** 2 + (off_y - way_y) ** 2 <= HALF_WIDTH_SQ
    return is_within | at_start | at_end


def lanes(seeds: Tensor, spawns: Spawns, zone: Zone, world: WorldConfig) -> Tensor:
    """Return the columns of a direct lane and a flank lane for each team, `[M, Y, X]` bool.

    As seen by its team, each flank lane bends to the same hand (left or right). The teams start in opposite corners, so
    the two flank lanes are on opposite sides of the map.
    """
    draws = fractions(seeds, Draw.FLANK, 2)
    turn_sign = torch.where(chance(draws[:, 0], 0.5), 1, -1)
    swing = (turn_sign * pick(draws[:, 1], *FLANK_SIXTEENTHS))[:, None]
    last = torch.tensor([world.size_x, world.size_y], device=seeds.device) - 1 - LANE_EDGE

    carved = torch.zeros((), dtype=torch.bool, device=seeds.device)
    for start in spawns.anchor.unbind(1):
        offset = zone.cell - start
        aside = torch.stack((-offset[:, 1], offset[:, 0]), 1)
        turn = start + (8 * offset + swing * aside) // 16
        turn = torch.minimum(turn.clamp_min(LANE_EDGE), last)
        for leg in ((start, zone.cell), (start, turn), (turn, zone.cell)):
            carved = carved | along_segment(*leg, world)
    return carved
