"""Walking paths from every column of a map to every part of it, for mechs with orders to go to a place.

A map is divided into square blocks. Each block has a path field like the zone: the distance to the block's centre from
every column, and the next step. The next step to any place is therefore found by one lookup.
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
"""Minimum side of a block, in columns. Larger maps have larger blocks."""
MOST_BLOCKS = 256
"""Maximum number of blocks of a map."""
STEP_BITS, COMMON = 4, 1 << 4
"""Encoding of a path: its next step in the lowest bits, `3 * (dy + 1) + dx + 1`; then a bit that is set if the widest
hull can walk from the first spawn to the column and back; then the length in vox."""
NO_STEP = 4
LENGTH_AT = STEP_BITS + 1
LONGEST = (1 << (15 - LENGTH_AT)) - 1


def block_side(world: WorldConfig) -> int:
    """Return the side of a block, in columns."""
    side = LEAST_SIDE
    while num_blocks(world, side) > MOST_BLOCKS:
        side += 1
    return side


def blocks_along(world: WorldConfig, side: int) -> tuple[int, int]:
    """Return the number of blocks along y and x, given the side of a block."""
    return -(-world.size_y // side), -(-world.size_x // side)


def num_blocks(world: WorldConfig, side: int) -> int:
    """Return the number of blocks of a map, given the side of a block."""
    down, along = blocks_along(world, side)
    return down * along


def num_ways(config: EnvConfig) -> int:
    """Return the number of path fields per map, L: one per block, 0 if orders are disabled."""
    return num_blocks(config.world, block_side(config.world)) if config.command.enabled else 0


def goal_radius(config: EnvConfig) -> float:
    """Return the distance from a block's centre at which paths end, vox; all places in the block are then in reach."""
    return max(config.command.reach_vox - block_side(config.world) * math.sqrt(0.5), 1.0)


def ways_on_foot(solid: Tensor, lava: Tensor, spawn_pos: Tensor, config: EnvConfig) -> Tensor:
    """Return the encoded path to each block from every column, `[M, L, Y, X]` int16; see `way_at`.

    Paths are for the widest hull. The paths use columns from which the widest hull can walk to the first spawn and
    back, and they end near the centre of the block. From all other columns, paths first lead to one of these columns.

    Args:
        solid: bit columns of the solid voxels, `[M, Y, X]` int32.
        lava: columns with lava, `[M, Y, X]` bool.
        spawn_pos: hull centres, `[M, N, 3]` vox.
        config: the battle.
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
    # Process one map at a time: more distance fields exceed the caches of a CPU and the memory of a GPU.
    costs = [
        encoded_ways(*relax(torch.where(goal, 0, UNREACHED).int(), [step[i : i + 1] for step in steps]), columns[i])
        for i, goal in enumerate(goals)
    ]
    return torch.stack(costs)


def reachable_columns(level: Tensor, passable: Tensor, spawn: Tensor) -> Tensor:
    """Return the columns to which a hull can walk from `spawn [M, 3]` and back, `[M, Y, X]` bool.

    Roofs that a hull can only leave, and pits that it can only enter, are excluded. The result is empty if the spawn is
    not `passable`.
    """
    start = torch.zeros_like(passable)
    start[torch.arange(len(start), device=start.device), spawn[:, 1].long(), spawn[:, 0].long()] = True
    cost = torch.where(start & passable, 0, UNREACHED).int()
    steps = steps_on_foot(level, passable)
    # Costs of the reverse steps, from the neighbour of a column back to the column
    back = [neighbour(F.pad(steps[STEPS.index((-dx, -dy))], (1, 1, 1, 1), value=UNREACHED), dx, dy) for dx, dy in STEPS]
    return (relax(cost, steps)[0] < UNREACHED) & (relax(cost, back)[0] < UNREACHED)


def goals_of(common: Tensor, config: EnvConfig) -> Tensor:
    """Return the end columns of the paths to each map block, `[M, L, Y, X]` bool.

    They are the columns of `common [M, Y, X]` within `goal_radius` of the block's centre, or else the nearest columns.
    """
    side = block_side(config.world)
    down, along = blocks_along(config.world, side)
    axes = []
    for count, size in ((down, config.world.size_y), (along, config.world.size_x)):
        middle = (torch.arange(count, device=common.device) + 0.5) * side
        axes.append((torch.arange(size, device=common.device) + 0.5 - middle[:, None]).square())
    distance_sq = (axes[0][:, None, :, None] + axes[1][None, :, None, :]).flatten(
        0, 1
    )  # [L, Y, X], exact, because all values are multiples of 1/4
    candidates = torch.where(common[:, None], distance_sq, torch.inf)
    return candidates <= candidates.amin((2, 3), keepdim=True).clamp_min(goal_radius(config) ** 2)


def encoded_ways(cost: Tensor, choice: Tensor, common: Tensor) -> Tensor:
    """Encode the results of `relax` as int16; `common [Y, X]` marks columns that are reachable both ways."""
    codes = torch.tensor([3 * (dy + 1) + dx + 1 for dx, dy in STEPS] + [NO_STEP], device=choice.device)
    vox = ((cost + 9) // 10).clamp_max(LONGEST)
    return ((vox << LENGTH_AT) | common * COMMON | codes[choice]).to(torch.int16)


def encoded_way(ways: Tensor, map_id: Tensor, at: Tensor, place: Tensor, config: EnvConfig) -> Tensor:
    """Return the encoded path from `at [B, N, 2]` to the block of `place [B, N, 2]`, `[B, N]` int32."""
    world, side = config.world, block_side(config.world)

    def column(where: Tensor) -> tuple[Tensor, Tensor]:
        x, y = where.floor().long().unbind(-1)
        return x.clamp(0, world.size_x - 1), y.clamp(0, world.size_y - 1)

    (x, y), (to_x, to_y) = column(at), column(place)
    block = (to_y // side) * blocks_along(world, side)[1] + to_x // side
    row = map_id[:, None] * ways.shape[1] + block
    return ways.flatten()[(row * world.size_y + y) * world.size_x + x].int()


def way_at(ways: Tensor, map_id: Tensor, at: Tensor, place: Tensor, config: EnvConfig) -> tuple[Tensor, Tensor]:
    """Return the next step and the distance from `at` towards the block of `place`.

    Args:
        ways: the result of `ways_on_foot`, `[M, L, Y, X]` int16.
        map_id: the map of each battle, `[B]` int64.
        at: current positions, `[B, N, 2]` vox.
        place: destinations, `[B, N, 2]` vox.
        config: the battle.

    Returns:
        `[B, N, 2]` unit vectors, zero at the end of the path, and `[B, N]` float32 vox, length of the path.
    """
    value = encoded_way(ways, map_id, at, place, config)
    code = value & (COMMON - 1)
    step = torch.stack((code % 3 - 1, code // 3 - 1), -1).to(torch.float32)
    return unit(step), (value >> LENGTH_AT).to(torch.float32)


def is_reachable(ways: Tensor, map_id: Tensor, place: Tensor, config: EnvConfig) -> Tensor:
    """`[B, N]` bool: the widest hull can walk from the first spawn to `place [B, N, 2]` and back."""
    return (encoded_way(ways, map_id, place, place, config) & COMMON) != 0
