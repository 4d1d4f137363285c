"""Whether a voxel stands between two points: `segments.is_blocked` by vector instructions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, called, padded
from echelon.sim.loops.arithmetic import SMALL
from echelon.sim.loops.segments import TOP_Z, axis_between, first_on_axis


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


@called
def entered_column(count: Any, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any) -> Any:
    """The column and the bit of the cell that a segment enters by its crossing `count` of a horizontal axis.

    Of its last cell the bit is 31, which no voxel sets.

    Args:
        along, across, up: the `axis_between` of this axis, of the other horizontal one and of z.
        stride, other_stride: how far apart neighbours along these two are in columns `[Y * X]`.
        total: cells entered in all.
    """
    t = min((count - along[0]) / max(along[1], SMALL), ONE)
    cell = max(min(np.floor(across[0] + t * across[1]), across[4]), ZERO)
    above = max(min(np.floor(up[0] + t * up[1]), up[4]), ZERO)
    # All whole numbers that a float32 holds.
    column = along[2] * stride + across[2] * other_stride + along[3] * stride * count + across[3] * other_stride * cell
    return np.int32(column), np.int32(up[2] + up[3] * above if count + cell + above != total else TOP_Z + ONE)


@called
def first_blocked_crossing(
    columns: Any, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any, line: Any
) -> int:
    """The first crossing of a horizontal axis by which a segment enters a cell that is set, but for its last; 0: none.

    First all cells, in a loop without a branch, of whole vectors of eight; then the bits, up to the first that is set.

    Args:
        columns: `[Y * X]`.
        along, across, up, stride, other_stride, total: as in `entered_column`.
        line: scratch memory.
    """
    steps = int(along[4])
    for k in range(padded(steps)):
        line.columns[k], line.bits[k] = entered_column(line.counts[k], along, across, up, stride, other_stride, total)
    clear = 0
    while clear < steps and not (columns[np.uint32(line.columns[clear])] >> line.bits[clear]) & 1:
        clear += 1
    return clear + 1 if clear < steps else 0


@called
def is_blocked_at(
    cell: int, columns: Any, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any
) -> bool:
    """Whether a segment crosses into a cell of a horizontal axis, but for its last, and what it enters there is set."""
    count = (np.float32(cell) - along[2]) * along[3]
    if count < ONE or count > along[4]:
        return False
    column, bit = entered_column(count, along, across, up, stride, other_stride, total)
    return (columns[np.uint32(column)] >> bit) & 1 != 0


@called
def is_clear(n: int, other: int, columns: Any, flat: Any, by_mech: Any, blocked_at: Any, line: Any) -> bool:
    """Whether no voxel of `columns [Y, X]` blocks strictly between the cells of two mechs.

    What blocked them when they were last looked at often blocks them still, and is tried first; on a GPU nobody
    remembers that.

    Args:
        flat: the same columns, `[Y * X]`.
        by_mech: `MechArrays`.
        blocked_at: `[N, N]` of any values; 1 + the cell along x where a line was blocked, or -1 - that along y.
        line: scratch memory.
    """
    cells, guess, row = by_mech.cells, int(blocked_at[n, other]), np.float32(columns.shape[1])
    a = axis_between(by_mech.x[n], by_mech.x[other], cells[0, n], cells[0, other])
    b = axis_between(by_mech.y[n], by_mech.y[other], cells[1, n], cells[1, other])
    c = axis_between(by_mech.z[n], by_mech.z[other], cells[2, n], cells[2, other])
    total = a[4] + b[4] + c[4]
    if guess > 0 and is_blocked_at(guess - 1, flat, a, b, c, ONE, row, total):
        return False
    if guess < 0 and is_blocked_at(-1 - guess, flat, b, a, c, row, ONE, total):
        return False
    blocked_at[n, other] = 0
    count = first_blocked_crossing(flat, a, b, c, ONE, row, total, line)
    if count > 0:
        blocked_at[n, other] = 1 + int(a[2] + a[3] * np.float32(count))
        return False
    count = first_blocked_crossing(flat, b, a, c, row, ONE, total, line)
    if count > 0:
        blocked_at[n, other] = -1 - int(b[2] + b[3] * np.float32(count))
        return False
    return first_on_axis(2, columns, c, a, b, int(c[4]), False, INFINITY) == INFINITY
