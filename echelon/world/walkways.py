"""Ways on foot from every column of a map to every part of it, for mechs that are sent to a place.

A map is cut into square blocks. For each there is a field as that of the zone: how long the way to its middle is from
every column, and the next step. So a place is led to by one look-up, wherever it is and however it moves.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from echelon.rules.config import EnvConfig, WorldConfig
from echelon.runtime.geometry import unit
from echelon.world.paths import (
    REACHES,
    STEPS,
    UNREACHED,
    neighbour,
    relax,
    standing_level,
    step_cost,
    steps_on_foot,
    walk_to,
    walkable,
)

LEAST_SIDE = 4
"""Columns along the side of a block, of a map that has not more than `MOST_BLOCKS` of these."""
MOST_BLOCKS = 256
STEP_BITS, COMMON = 4, 1 << 4
"""A way is stored as its next step in the lowest bits, `3 * (dy + 1) + dx + 1`, then whether the widest hull can walk
from the first spawn to here and back, then its length in vox."""
NO_STEP = 4
LENGTH_AT = STEP_BITS + 1
LONGEST = (1 << (15 - LENGTH_AT)) - 1


def block_side(world: WorldConfig) -> int:
    """Columns along the side of a block."""
    side = LEAST_SIDE
    while num_blocks(world, side) > MOST_BLOCKS:
        side += 1
    return side


def blocks_along(world: WorldConfig, side: int) -> tuple[int, int]:
    """Blocks of a side along y and x."""
    return -(-world.size_y // side), -(-world.size_x // side)


def num_blocks(world: WorldConfig, side: int) -> int:
    """Blocks of a side on a map."""
    down, along = blocks_along(world, side)
    return down * along


def num_ways(config: EnvConfig) -> int:
    """Places that each map has ways to, L: one for each block, none where orders are off."""
    return num_blocks(config.world, block_side(config.world)) if config.command.enabled else 0


def goal_radius(config: EnvConfig) -> float:
    """How near to the middle of a block ways end, vox: from there every place in it is within reach."""
    return max(config.command.reach_vox - block_side(config.world) * math.sqrt(0.5), 1.0)


def ways_on_foot(solid: Tensor, lava: Tensor, spawn_pos: Tensor, config: EnvConfig) -> Tensor:
    """`[M, L, Y, X]` int16: the way to each block from every column, as `way_at` reads it.

    It leads as the widest hull walks, among the columns to which that hull can walk from the first spawn and back, to
    those next to the middle of the block. From all other columns it leads out to these first.

    Args:
        solid: `[M, Y, X]` int32 bit columns.
        lava: `[M, Y, X]` bool.
        spawn_pos: `[M, N, 3]` vox, hull centres.
    """
    count, size_z = num_ways(config), config.world.size_z
    if count == 0:
        return torch.zeros((len(solid), 0, *solid.shape[1:]), dtype=torch.int16, device=solid.device)
    level = standing_level(solid, size_z, REACHES[0])
    columns = reachable_columns(level, walkable(level, lava, size_z, REACHES[0]), spawn_pos[:, 0])
    out = walk_to(columns, solid, lava, size_z)
    steps = [
        torch.where(out.choice == index, step_cost(*STEPS[index]), on_foot)
        for index, on_foot in enumerate(steps_on_foot(level, columns))
    ]
    goals = goals_of(columns, config)
    # A map at a time: so many fields at once fill the caches of a CPU and the memory of a GPU.
    costs = [
        encoded_ways(*relax(torch.where(goal, 0, UNREACHED).int(), [step[i : i + 1] for step in steps]), columns[i])
        for i, goal in enumerate(goals)
    ]
    return torch.stack(costs)


def reachable_columns(level: Tensor, passable: Tensor, spawn: Tensor) -> Tensor:
    """`[M, Y, X]` bool, columns to which one can walk from `spawn [M, 3]` and back; none where it is not `passable`.
    A roof that one can jump down from is none of them, nor is a pit."""
    start = torch.zeros_like(passable)
    start[torch.arange(len(start), device=start.device), spawn[:, 1].long(), spawn[:, 0].long()] = True
    cost = torch.where(start & passable, 0, UNREACHED).int()
    steps = steps_on_foot(level, passable)
    # The step that leads here from the column that a step leads to.
    back = [neighbour(F.pad(steps[STEPS.index((-dx, -dy))], (1, 1, 1, 1), value=UNREACHED), dx, dy) for dx, dy in STEPS]
    return (relax(cost, steps)[0] < UNREACHED) & (relax(cost, back)[0] < UNREACHED)


def goals_of(common: Tensor, config: EnvConfig) -> Tensor:
    """`[M, L, Y, X]` bool, where the way to each block ends: columns of `common [M, Y, X]` within `goal_radius` of its
    middle, or else the nearest ones."""
    side = block_side(config.world)
    down, along = blocks_along(config.world, side)
    axes = []
    for count, size in ((down, config.world.size_y), (along, config.world.size_x)):
        middle = (torch.arange(count, device=common.device) + 0.5) * side
        axes.append((torch.arange(size, device=common.device) + 0.5 - middle[:, None]).square())
    distance_sq = (axes[0][:, None, :, None] + axes[1][None, :, None, :]).flatten(0, 1)  # [L, Y, X], whole quarters
    candidates = torch.where(common[:, None], distance_sq, torch.inf)
    return candidates <= candidates.amin((2, 3), keepdim=True).clamp_min(goal_radius(config) ** 2)


def encoded_ways(cost: Tensor, choice: Tensor, common: Tensor) -> Tensor:
    """int16 of what `relax` found, on columns of which some are `common [Y, X]`."""
    codes = torch.tensor([3 * (dy + 1) + dx + 1 for dx, dy in STEPS] + [NO_STEP], device=choice.device)
    vox = ((cost + 9) // 10).clamp_max(LONGEST)
    return ((vox << LENGTH_AT) | common * COMMON | codes[choice]).to(torch.int16)


def encoded_way(ways: Tensor, map_id: Tensor, at: Tensor, place: Tensor, config: EnvConfig) -> Tensor:
    """`[B, N]` int32, what is stored at `at [B, N, 2]` of the way to the block of `place [B, N, 2]`."""
    world, side = config.world, block_side(config.world)

    def column(where: Tensor) -> tuple[Tensor, Tensor]:
        x, y = where.floor().long().unbind(-1)
        return x.clamp(0, world.size_x - 1), y.clamp(0, world.size_y - 1)

    (x, y), (to_x, to_y) = column(at), column(place)
    block = (to_y // side) * blocks_along(world, side)[1] + to_x // side
    row = map_id[:, None] * ways.shape[1] + block
    return ways.flatten()[(row * world.size_y + y) * world.size_x + x].int()


def way_at(ways: Tensor, map_id: Tensor, at: Tensor, place: Tensor, config: EnvConfig) -> tuple[Tensor, Tensor]:
    """The next step from `at [B, N, 2]` towards the block of `place [B, N, 2]`, a unit vector `[B, N, 2]` that is zero
    at the end of the way, and the length of the way, `[B, N]` vox.

    Args:
        ways: as `ways_on_foot` returns it.
        map_id: `[B]` int64.
    """
    value = encoded_way(ways, map_id, at, place, config)
    code = value & (COMMON - 1)
    step = torch.stack((code % 3 - 1, code // 3 - 1), -1).to(torch.float32)
    return unit(step), (value >> LENGTH_AT).to(torch.float32)


def is_reachable(ways: Tensor, map_id: Tensor, place: Tensor, config: EnvConfig) -> Tensor:
    """`[B, N]` bool, whether the widest hull can walk from the first spawn to `place [B, N, 2]` and back."""
    return (encoded_way(ways, map_id, place, place, config) & COMMON) != 0
