"""Rays through voxels, cell by cell (Amanatides & Woo 1987, A Fast Voxel Traversal Algorithm for Ray Tracing)."""

import math
from collections.abc import Callable, Iterator

from first_catalog import MATERIALS

from echelon.rules.catalog import Material

from .battle import Ground
from .hair import weigh
from .vectors import Vector

Cell = tuple[int, int, int]
SOLID = tuple(MATERIALS[material].solid for material in Material)
OPAQUE = tuple(MATERIALS[material].opaque for material in Material)


def entered(start: Vector, end: Vector) -> Iterator[tuple[Cell, float, float]]:
    """Yield the cells that a segment enters after its first, with the fractions at which it enters and leaves each.

    A face counts to the cell above it. On a corner the ray turns along the first of the axes.
    """
    cell = [math.floor(c) for c in start]
    step, next_t, per_cell = [0] * 3, [math.inf] * 3, [math.inf] * 3
    length = math.dist(start, end)
    for axis in range(3):
        delta = end[axis] - start[axis]
        if delta != 0:
            step[axis] = 1 if delta > 0 else -1
            plane = cell[axis] + (delta > 0)
            next_t[axis] = (plane - start[axis]) / delta
            per_cell[axis] = 1 / abs(delta)
    while True:
        axis = next_t.index(min(next_t))
        t = next_t[axis]
        if not (t < 1 or (t == 1 and step[axis] > 0)):
            return
        cell[axis] += step[axis]
        next_t[axis] += per_cell[axis]
        leaves = min(next_t)
        # Rounding may miss a cell that the segment only grazes, at a corner or at its end.
        weigh(leaves * length, t * length, "corner")
        weigh(t * length, length, "end of a ray")
        yield (cell[0], cell[1], cell[2]), t, leaves


def first_cell(
    ground: Ground, start: Vector, end: Vector, stops: Callable[[int], bool] | tuple[bool, ...] = SOLID
) -> tuple[float, Cell] | None:
    """Return the first cell with a blocking material that a segment enters, and the fraction at which it enters."""
    for cell, t, _ in entered(start, end):
        if stops[ground.at(*cell)]:
            return t, cell
    return None


def is_open(ground: Ground, start: Vector, end: Vector, stops: tuple[bool, ...]) -> bool:
    """Return True if no blocking voxel lies strictly between the end cells of a segment."""
    last = tuple(math.floor(c) for c in end)
    return all(cell == last or not stops[ground.at(*cell)] for cell, _, _ in entered(start, end))
