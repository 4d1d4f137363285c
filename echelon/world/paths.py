"""Walking distances to the zone, as a field over all columns.

Distances are relaxed in integer tenths of a voxel until they no longer change. The fixed point is the shortest path in
any update order, so results have the same bits on every device and in every batch.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from echelon.runtime.jit import array, kernel, loops_on


@kernel
def lower_costs(cost: Any, fixed: Any, steps: Any, offsets: Any, queue: Any, waits: Any) -> None:
    """Lower `cost` until no step lowers it further. A FIFO queue holds the columns whose cost changed.

    Args:
        cost: costs of the columns, modified in place, `[F, Y, X]` int32.
        fixed: columns that keep their cost, `[F, Y, X]` bool.
        steps: cost of each of K steps from every column, `[F or 1, K, Y, X]` int32.
        offsets: dx and dy of the steps, `[K, 2]` int64.
        queue: scratch memory, `[Y * X]` int64.
        waits: scratch memory, `[Y, X]` bool.
    """
    size_y, size_x = cost.shape[1:]
    for field in range(cost.shape[0]):
        table = min(field, steps.shape[0] - 1)
        first, count = 0, 0
        for y in range(size_y):
            for x in range(size_x):
                waits[y, x] = fixed[field, y, x]
                if fixed[field, y, x]:
                    queue[count] = y * size_x + x
                    count += 1
        while count > 0:
            y, x = queue[first] // size_x, queue[first] % size_x
            first, count = (first + 1) % (size_y * size_x), count - 1
            waits[y, x] = False
            for step in range(offsets.shape[0]):
                from_x, from_y = x - offsets[step, 0], y - offsets[step, 1]
                if from_x < 0 or from_y < 0 or from_x >= size_x or from_y >= size_y or fixed[field, from_y, from_x]:
                    continue
                through = cost[field, y, x] + steps[table, step, from_y, from_x]
                if through < cost[field, from_y, from_x]:
                    cost[field, from_y, from_x] = through
                    if not waits[from_y, from_x]:
                        waits[from_y, from_x] = True
                        queue[(first + count) % (size_y * size_x)] = from_y * size_x + from_x
                        count += 1


STEPS = ((0, -1), (-1, 0), (1, 0), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1))
"""Offsets dx, dy to the neighbouring columns. Ties go to the first."""
STRAIGHT, DIAGONAL = 10, 14
"""Cost of a step, tenths of a voxel."""
UNREACHED = 1 << 29
"""Cost of unreached columns: above every cost, and the sum of two fits into an int32."""
CLEARANCE = 5
"""Free voxels above a standing level. The tallest hull is 4 vox high, and rises 1.1 vox to climb one voxel."""
REACHES = (2, 1, 0)
"""Columns that a hull extends beyond its central column: 3.5 vox wide, 2.5 vox wide, and a point."""
SWEEPS = 4
"""Number of relaxation sweeps between two convergence checks."""


class PathField(NamedTuple):
    """The shortest path to the zone from every column, `[M, Y, X]`."""

    cost: Tensor  # int32, distance to the zone in tenths of a voxel, 0 inside
    choice: Tensor  # int64, index in STEPS of the next step, or len(STEPS) inside the zone
    reached: Tensor  # bool, whether the widest hull can walk from here to the zone

    @property
    def length_vox(self) -> Tensor:
        """[M, Y, X] float32 vox. The length is computed as a product, because division by a constant differs between
        devices."""
        return self.cost.float() * 0.1

    @property
    def direction(self) -> Tensor:
        """[M, Y, X, 2] float32 unit vectors, 0 inside the zone."""
        units = [(dx / math.sqrt(dx * dx + dy * dy), dy / math.sqrt(dx * dx + dy * dy)) for dx, dy in STEPS]
        return torch.tensor([*units, (0.0, 0.0)], dtype=torch.float32, device=self.choice.device)[self.choice]


def octile_cost(offset: Tensor) -> Tensor:
    """Return the cost of the shortest path over open ground for a displacement `offset [..., 2]`, in columns."""
    major, minor = offset.abs().amax(-1), offset.abs().amin(-1)
    return STRAIGHT * (major - minor) + DIAGONAL * minor


def step_cost(dx: int, dy: int) -> int:
    """Return the cost of a step to a neighbouring column."""
    return DIAGONAL if dx and dy else STRAIGHT


def spread(columns: Tensor, reach: int) -> Tensor:
    """Return the bitwise or over the square of `reach` columns around each column, `[M, Y, X]` int32 or bool."""
    for axis in (1, 2):
        size = columns.shape[axis]
        spread_out = columns.clone()
        for shift in range(1, reach + 1):
            spread_out.narrow(axis, 0, size - shift).bitwise_or_(columns.narrow(axis, shift, size - shift))
            spread_out.narrow(axis, shift, size - shift).bitwise_or_(columns.narrow(axis, 0, size - shift))
        columns = spread_out
    return columns


def standing_level(solid: Tensor, size_z: int, reach: int) -> Tensor:
    """Return the lowest level where a hull of this reach fits, `[M, Y, X]` int32; `size_z` if the hull fits at no
    level.

    At this level, the hull always stands on something: the ground, or a solid voxel below.
    """
    around = spread(solid, reach)
    level = torch.full_like(around, size_z)
    for z in reversed(range(size_z - CLEARANCE + 1)):
        level = torch.where((around >> z) & ((1 << CLEARANCE) - 1) == 0, z, level)
    return level


def walkable(level: Tensor, lava: Tensor, size_z: int, reach: int) -> Tensor:
    """`[M, Y, X]` bool: a hull of this reach fits at the column, inside the map and not next to lava."""
    is_low_enough = level < size_z
    inside = torch.zeros_like(is_low_enough)
    inside[:, reach : is_low_enough.shape[1] - reach, reach : is_low_enough.shape[2] - reach] = True
    return is_low_enough & inside & ~spread(lava, min(reach, 1))


def neighbour(padded: Tensor, dx: int, dy: int) -> Tensor:
    """Return the values one step away from every column, `[M, Y, X]`, given values padded by one column."""
    return padded[:, 1 + dy : padded.shape[1] - 1 + dy, 1 + dx : padded.shape[2] - 1 + dx]


def steps_on_foot(level: Tensor, passable: Tensor) -> list[Tensor]:
    """Return the cost of each of `STEPS` from every column, `[M, Y, X]` int32. A step climbs at most one level."""
    levels = F.pad(level, (1, 1, 1, 1))
    open_to = F.pad(passable, (1, 1, 1, 1))
    costs = []
    for dx, dy in STEPS:
        climbs = neighbour(levels, dx, dy) - level <= 1
        allowed = climbs & passable & neighbour(open_to, dx, dy)
        costs.append(torch.where(allowed, step_cost(dx, dy), UNREACHED).int())
    return costs


def least_costs(cost: Tensor, fixed: Tensor, step_costs: list[Tensor]) -> Tensor:
    """Return the minimum cost of every column, `[M, Y, X]` int32. The numba loop and the dense torch code give the same
    result.

    Args:
        cost: initial costs, `[M, Y, X]` int32.
        fixed: columns that keep their cost, `[M, Y, X]` bool.
        step_costs: cost of each of `STEPS`, `[M or 1, Y, X]` int32 each.
    """
    if loops_on(cost.device):
        return least_costs_in_loops(cost, fixed, step_costs)
    step_costs = [torch.where(fixed, UNREACHED, step) for step in step_costs]
    padded = F.pad(cost, (1, 1, 1, 1), value=UNREACHED)
    inner = neighbour(padded, 0, 0)
    through = torch.empty_like(cost)
    while True:
        previous = inner.clone()
        for _ in range(SWEEPS):
            for (dx, dy), step in zip(STEPS, step_costs, strict=True):
                torch.add(neighbour(padded, dx, dy), step, out=through)
                torch.minimum(inner, through, out=inner)
        if torch.equal(previous, inner):
            return inner


def least_costs_in_loops(cost: Tensor, fixed: Tensor, step_costs: list[Tensor]) -> Tensor:
    """Numba version of `least_costs`."""
    result, size = cost.clone(memory_format=torch.contiguous_format), cost[0].numel()
    queue, is_queued = np.empty(size, np.int64), np.empty(cost.shape[1:], np.bool_)
    lower_costs(result.numpy(), array(fixed), array(torch.stack(step_costs, 1)), np.array(STEPS), queue, is_queued)
    return result


def relax(cost: Tensor, step_costs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Relax costs until they no longer change. Columns that already have a cost keep this cost.

    Args:
        cost: costs of the columns, or `UNREACHED`, `[M, Y, X]` int32.
        step_costs: cost of each of `STEPS`, `[M or 1, Y, X]` int32 each.

    Returns:
        The costs, and for each column the index of the first step that attains its cost, or len(STEPS) for fixed and
        unreached columns.
    """
    fixed = cost < UNREACHED
    padded = F.pad(least_costs(cost, fixed, step_costs), (1, 1, 1, 1), value=UNREACHED)
    inner = neighbour(padded, 0, 0)
    choice = torch.full(cost.shape, len(STEPS), device=cost.device)
    is_reached = ~fixed & (inner < UNREACHED)
    for index in reversed(range(len(STEPS))):
        attains = neighbour(padded, *STEPS[index]) + step_costs[index] == inner
        choice = torch.where(is_reached & attains, index, choice)
    return inner.clone(), choice


def walk_to(goal: Tensor, solid: Tensor, lava: Tensor, size_z: int) -> PathField:
    """Return the shortest paths to `goal` from all columns.

    Paths are first found for the widest hull. From columns that are too narrow for the widest hull, paths of narrower
    hulls lead to paths of the widest hull. The remaining columns, inside obstacles and lava, lead straight out, so
    every column has a path.

    Args:
        goal: columns of the goal, `[M, Y, X]` bool.
        solid: bit columns of the solid voxels, `[M, Y, X]` int32.
        lava: columns with lava, `[M, Y, X]` bool.
        size_z: height of the maps, vox.
    """
    cost = torch.full(solid.shape, UNREACHED, dtype=torch.int32, device=solid.device)
    choice = torch.full(solid.shape, len(STEPS), device=solid.device)
    reached = []
    for reach in REACHES:
        level = standing_level(solid, size_z, reach)
        passable = walkable(level, lava, size_z, reach)
        cost, steps = relax(cost.masked_fill(goal & passable, 0), steps_on_foot(level, passable))
        choice = torch.minimum(choice, steps)
        reached.append(cost < UNREACHED)
    anywhere = [torch.full_like(cost, step_cost(*step)) for step in STEPS]
    cost, steps = relax(cost.masked_fill(goal, 0), anywhere)
    return PathField(cost, torch.minimum(choice, steps), reached[0])
