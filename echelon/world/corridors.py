"""The lanes that lead each team to the zone."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules.config import WorldConfig
from echelon.world.draws import Draw, cells, chance, fractions, pick
from echelon.world.spawns import Spawns
from echelon.world.zones import Zone

HALF_WIDTH_SQ = 13
"""Square of half a lane's width, vox². The columns of a straight way stray half a voxel from the line, and
corners of the widest hull's 5x5 columns lie 2.83 further: 3.33 < sqrt(13), so it passes along any lane."""
FLANK_SIXTEENTHS = (6, 10)
"""How far aside a flank swings, in sixteenths of the straight way."""
EDGE = 4
"""Columns a flank keeps from the map's edge."""


def along_segment(start: Tensor, end: Tensor, world: WorldConfig) -> Tensor:
    """`[M, Y, X]` bool: columns of a lane from column `start` to column `end`, both `[M, 2]` int64 x, y."""
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
    """`[M, Y, X]` bool: a direct lane and a flank for each team.

    Both teams swing to the same hand: opposite sides of the map, because they come from opposite corners.
    """
    draws = fractions(seeds, Draw.FLANK, 2)
    turn_sign = torch.where(chance(draws[:, 0], 0.5), 1, -1)
    swing = (turn_sign * pick(draws[:, 1], *FLANK_SIXTEENTHS))[:, None]
    last = torch.tensor([world.size_x, world.size_y], device=seeds.device) - 1 - EDGE

    carved = torch.zeros((), dtype=torch.bool, device=seeds.device)
    for start in spawns.anchor.unbind(1):
        offset = zone.cell - start
        aside = torch.stack((-offset[:, 1], offset[:, 0]), 1)
        turn = start + (8 * offset + swing * aside) // 16
        turn = torch.minimum(turn.clamp_min(EDGE), last)
        for leg in ((start, zone.cell), (start, turn), (turn, zone.cell)):
            carved = carved | along_segment(*leg, world)
    return carved
