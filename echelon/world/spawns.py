"""Where the teams stand at the start: opposite corners, point-symmetric about the middle of the map."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import Roster
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.world.draws import Draw, cells, chance, fractions, pick
from echelon.world.stamps import clear

COLUMNS = 5
SPACING = 4.25
EDGE = 3
"""From the border of the spawn area to the first mech's centre, vox: the columns of any hull lie inside."""
WIDTH = int(2 * EDGE + (COLUMNS - 1) * SPACING)
JITTER_STEPS = 64
"""Steps of 1/256 vox a mech strays either way, 0.25 vox in all: whole steps keep every sum exact."""
YAW_STEPS = 150
"""Steps of 1/1000 rad a mech's heading strays from the zone either way."""
SMALLEST_ZONE = 8
"""Diameter of the smallest zone, in whole voxels."""


class Spawns(NamedTuple):
    """The two spawn areas of each map. Team 0 is blue."""

    is_turned: Tensor  # [M] bool, rows run along y instead of x
    is_flipped: Tensor  # [M, 2] bool, blue at the far end of x, of y
    low: Tensor  # [M, 2 teams, 2] int64, first column x, y of the area
    high: Tensor  # [M, 2 teams, 2] int64, first column beyond
    anchor: Tensor  # [M, 2 teams, 2] int64, column x, y the lanes start from

    @property
    def corners(self) -> Tensor:
        """[M, 2 teams, 4, 2] int64: the columns x, y of the outermost places."""
        near, far = self.low + EDGE, self.high - 1 - EDGE
        x = torch.stack((near[..., 0], near[..., 0], far[..., 0], far[..., 0]), -1)
        y = torch.stack((near[..., 1], far[..., 1], near[..., 1], far[..., 1]), -1)
        return torch.stack((x, y), -1)


def area_depth(config: EnvConfig) -> int:
    """Columns a spawn area needs behind one another; both teams get the area of the larger one."""
    rows = math.ceil(max(len(config.blue), len(config.red)) / COLUMNS)
    return math.ceil(2 * EDGE + (rows - 1) * SPACING)


def check_room(config: EnvConfig) -> None:
    """Raise `ConfigError` unless both spawn areas and the smallest zone fit one behind the other."""
    world, needed = config.world, 2 * area_depth(config) + SMALLEST_ZONE
    longest = world.longest_side
    limit = f">= {needed} vox for {len(config.blue)} blue and {len(config.red)} red mechs and a zone"
    require(longest >= needed, "the larger of WorldConfig.size_x, WorldConfig.size_y", limit, longest)


def arrange(seeds: Tensor, config: EnvConfig) -> Spawns:
    """Draw the corners for seeds `[M]`: flips in x and y, and a quarter turn where both ways fit."""
    world, depth = config.world, area_depth(config)
    needed = 2 * depth + SMALLEST_ZONE
    draws = fractions(seeds, Draw.CORNER, 3)
    is_flipped = chance(draws[:, :2], 0.5)
    fits_upright, fits_turned = world.size_y >= needed, world.size_x >= needed
    is_turned = (chance(draws[:, 2], 0.5) & fits_turned) | (not fits_upright)

    def per_axis(wide: int, deep: int) -> Tensor:
        """[M, 2]: along x and y, from lengths along a row and across the rows."""
        upright = torch.tensor([wide, deep], device=seeds.device)
        return torch.where(is_turned[:, None], upright.flip(0), upright)

    size = torch.tensor([world.size_x, world.size_y], device=seeds.device)
    extent, middle = per_axis(WIDTH, depth), per_axis(WIDTH // 2, depth // 2)
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
    """Level both spawn areas, in place, in voxels `[M, Z, Y, X]`."""
    x, y = cells(world.size_x, world.size_y, material.device)
    for low, high in zip(spawns.low.unbind(1), spawns.high.unbind(1), strict=True):
        (low_x, low_y), (high_x, high_y) = low[:, :, None, None].unbind(1), high[:, :, None, None].unbind(1)
        clear(material, (x >= low_x) & (x < high_x) & (y >= low_y) & (y < high_y))


def stand(
    seeds: Tensor, spawns: Spawns, zone_center: Tensor, roster: Roster, world: WorldConfig
) -> tuple[Tensor, Tensor]:
    """Hull centres `[M, N, 3]` vox on the ground and headings `[M, N]` rad towards the zone `[M, 2]` vox.

    Mech k of a team stands on place k of a grid five wide, so a pack fills one row.
    """
    device, mechs = seeds.device, roster.num_mechs
    index = torch.arange(mechs, device=device)
    index_in_team = torch.where(roster.is_red, index - roster.num_blue, index)
    upright = EDGE + SPACING * torch.stack((index_in_team % COLUMNS, index_in_team // COLUMNS), -1).float()  # [N, 2]
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
