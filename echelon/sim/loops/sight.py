"""Whether a voxel stands between two points: `segments.is_blocked` by vector instructions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, called, padded
from echelon.sim.loops.arithmetic import SMALL
from echelon.sim.loops.segments import TOP_Z, first_on_axis, segment_axis


class Line(NamedTuple):
    """Scratch memory for the crossings of one segment with the planes of an axis, K at the most."""

    counts: Any
    """[K] float32: 1, 2, ... K."""
    columns: Any
    """[K] int32, the column that each crossing enters."""
    bits: Any
    """[K] int32, and the bit there."""


def line_scratch(longest_side: int) -> Line:
    """For maps of which no side is longer."""
    room = longest_side + 8
    return Line(np.arange(1, room + 1, dtype=np.float32), np.zeros(room, np.int32), np.zeros(room, np.int32))


NO_BIT = np.float32(31)
"""Of a column: no voxel sets it."""


@called
def is_blocked_on_axis(
    columns: Any, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any, line: Any
) -> bool:
    """Whether one of the cells that a segment enters by crossing planes of a horizontal axis is set, but for its last.

    First all cells, in a loop without a branch, of whole vectors of eight; then the bits, up to the first that is set.
    Of the last cell that is bit 31, which no voxel sets.

    Args:
        columns: `[Y * X]`.
        along, across, up: the `segment_axis` of this axis, of the other horizontal one and of z.
        stride, other_stride: how far apart neighbours along these two are in `columns`.
        total: cells entered in all.
        line: scratch memory.
    """
    length, steps = max(along[1], SMALL), int(along[4])
    # All whole numbers that a float32 holds.
    origin, step, step_across = along[2] * stride + across[2] * other_stride, along[3] * stride, across[3] * other_stride
    for k in range(padded(steps)):
        count = line.counts[k]
        t = min((count - along[0]) / length, ONE)
        cell = max(min(np.floor(across[0] + t * across[1]), across[4]), ZERO)
        above = max(min(np.floor(up[0] + t * up[1]), up[4]), ZERO)
        line.columns[k] = np.int32(origin + step * count + step_across * cell)
        line.bits[k] = np.int32(up[2] + up[3] * above if count + cell + above != total else NO_BIT)
    clear = 0
    while clear < steps and not (columns[np.uint32(line.columns[clear])] >> line.bits[clear]) & 1:
        clear += 1
    return clear < steps


@called
def is_clear(columns: Any, flat: Any, x: Any, y: Any, z: Any, to_x: Any, to_y: Any, to_z: Any, line: Any) -> bool:
    """Whether no voxel of `columns [Y, X]` blocks strictly between the cells of two points.

    Args:
        flat: the same columns, `[Y * X]`.
        line: scratch memory.
    """
    height, width = columns.shape
    a = segment_axis(x, to_x, np.float32(width - 1))
    b = segment_axis(y, to_y, np.float32(height - 1))
    c = segment_axis(z, to_z, TOP_Z)
    total, row = a[4] + b[4] + c[4], np.float32(width)
    if is_blocked_on_axis(flat, a, b, c, ONE, row, total, line):
        return False
    if is_blocked_on_axis(flat, b, a, c, row, ONE, total, line):
        return False
    return first_on_axis(2, columns, c, a, b, int(c[4]), False, INFINITY) == INFINITY
