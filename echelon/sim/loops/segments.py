"""Sequential search through the cells that a segment enters. The dense code is in `sim/segments.py` and
`rubble.clear_leaves`."""

from typing import Any, NamedTuple

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, device_function, padded
from echelon.sim.loops.arithmetic import SMALL
from echelon.sim.loops.records import Columns

TOP_Z = np.float32(30)


@device_function
def cell_at(at: Any, top: Any) -> Any:
    """Return the cell of a coordinate as a float32, clamped to the range from 0 to `top`."""
    return min(max(np.floor(at), ZERO), top)


@device_function
def axis_between(at: Any, to: Any, first: Any, last: Any) -> Any:
    """Return the fields of `segments.Segments` for one axis of one segment: offset, length, cell, sign, steps.

    Args:
        at: coordinate of the start.
        to: coordinate of the end.
        first: cell of the start.
        last: cell of the end.
    """
    # Use conditional expressions, because a branch would be mispredicted half of the time.
    offset, sign = (first + ONE - at if to < at else at - first), (-ONE if to < at else ONE)
    return offset, abs(to - at), first, sign, abs(last - first)


@device_function
def segment_axis(at: Any, to: Any, top: Any) -> Any:
    """Return `axis_between` for two coordinates; `top` is the last cell of the axis."""
    return axis_between(at, to, cell_at(at, top), cell_at(to, top))


@device_function
def entered_cell(axis: int, count: Any, t: Any, a: Any, b: Any, c: Any) -> Any:
    """Numba version of `segments.cross`. Returns the number of cells entered so far, and x, y, z of the cell entered.

    Args:
        axis: 0, 1, 2 for x, y, z.
        count: number of the plane, 1 for the first.
        t: fraction of the segment at the crossing.
        a, b, c: results of `segment_axis` for this axis and the next two, cyclically.
    """
    gone_b = max(min(np.floor(b[0] + t * b[1]), b[4]), ZERO)
    gone_c = max(min(np.floor(c[0] + t * c[1]), c[4]), ZERO)
    cell_a, cell_b, cell_c = int(a[2] + a[3] * count), int(b[2] + b[3] * gone_b), int(c[2] + c[3] * gone_c)
    entered = count + gone_b + gone_c
    if axis == 0:
        return entered, cell_a, cell_b, cell_c
    if axis == 1:
        return entered, cell_c, cell_a, cell_b
    return entered, cell_b, cell_c, cell_a


@device_function
def first_on_axis(axis: int, columns: Columns, a: Any, b: Any, c: Any, planes: int, past_end: bool, best: Any) -> Any:
    """Return the fraction of the first hit among the planes of one axis, or `best` if `best` is smaller.

    Args:
        axis, a, b, c: as in `entered_cell`.
        columns: bit columns, `[Y, X]`.
        planes: maximum number of planes to check.
        past_end: whether the cell of the end may block too.
        best: fraction of the first hit on other axes, infinity for none.
    """
    total = a[4] + b[4] + c[4]
    length = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), planes) + 1):
        t = min((np.float32(count) - a[0]) / length, ONE)
        if t >= best:
            break
        entered, x, y, z = entered_cell(axis, np.float32(count), t, a, b, c)
        if not past_end and entered == total:
            continue
        if (columns[y, x] >> z) & 1:
            return t
    return best


@device_function
def first_on_segment(
    columns: Columns,
    x: Any,
    y: Any,
    z: Any,
    to_x: Any,
    to_y: Any,
    to_z: Any,
    planes: int,
    past_end: bool,
    any_hit: bool,
) -> Any:
    """Numba version of `segments.first_hit`, for one segment that crosses at most `planes` planes of an axis.

    If `any_hit` is True, the result is the fraction of any hit, which may not be the first one.
    """
    top_x, top_y = np.float32(columns.shape[1] - 1), np.float32(columns.shape[0] - 1)
    a, b, c = segment_axis(x, to_x, top_x), segment_axis(y, to_y, top_y), segment_axis(z, to_z, TOP_Z)
    best = first_on_axis(0, columns, a, b, c, planes, past_end, INFINITY)
    if not any_hit or best == INFINITY:
        best = first_on_axis(1, columns, b, c, a, planes, past_end, best)
    if not any_hit or best == INFINITY:
        best = first_on_axis(2, columns, c, a, b, planes, past_end, best)
    return best


@device_function
def clear_voxel(opaque: Columns, solid: Columns, x: int, y: int, z: int) -> None:
    """Remove foliage from a voxel: make the voxel transparent unless it is solid."""
    opaque[y, x] &= ~(np.int32(1) << np.int32(z)) | solid[y, x]


@device_function
def clear_on_axis(axis: int, opaque: Columns, solid: Columns, a: Any, b: Any, c: Any, planes: int) -> None:
    """Remove the foliage of cells entered by crossing planes of one axis, with arguments as in `first_on_axis`."""
    length = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), planes) + 1):
        t = min((np.float32(count) - a[0]) / length, ONE)
        _, x, y, z = entered_cell(axis, np.float32(count), t, a, b, c)
        clear_voxel(opaque, solid, x, y, z)


@device_function
def clear_on_segment(
    opaque: Columns, solid: Columns, x: int, y: int, z: int, start: Any, end: Any, planes: int
) -> None:
    """Numba version of `rubble.clear_leaves`, for one shot: at the voxel (x, y, z), and along the path."""
    top_x, top_y = np.float32(opaque.shape[1] - 1), np.float32(opaque.shape[0] - 1)
    clear_voxel(opaque, solid, x, y, z)
    a = segment_axis(start[0], end[0], top_x)
    b = segment_axis(start[1], end[1], top_y)
    c = segment_axis(start[2], end[2], TOP_Z)
    clear_on_axis(0, opaque, solid, a, b, c, planes)
    clear_on_axis(1, opaque, solid, b, c, a, planes)
    clear_on_axis(2, opaque, solid, c, a, b, planes)


class Line(NamedTuple):
    """Scratch memory for at most K crossings of one segment with the planes of an axis."""

    counts: Any
    """[K] float32: 1, 2, ... K."""
    columns: Any
    """[K] int32, index of the column that each crossing enters."""
    bits: Any
    """[K] int32, bit of the entered cell in its column."""


def line_scratch(longest_side: int) -> Line:
    """Allocate the scratch memory for maps whose longest side is `longest_side` vox."""
    room = longest_side + 8
    return Line(np.arange(1, room + 1, dtype=np.float32), np.zeros(room, np.int32), np.zeros(room, np.int32))


@device_function
def entered_column(count: Any, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any) -> Any:
    """Return the column and the bit of the cell that a segment enters by its crossing number `count` of a horizontal
    axis.

    The bit of the last cell is 31, which is never set.

    Args:
        count: number of the crossing, 1 for the first.
        along, across, up: results of `axis_between` for this axis, the other horizontal axis and z.
        stride, other_stride: strides of the two horizontal axes in columns `[Y * X]`.
        total: number of cells entered along all axes.
    """
    t = min((count - along[0]) / max(along[1], SMALL), ONE)
    cell = max(min(np.floor(across[0] + t * across[1]), across[4]), ZERO)
    above = max(min(np.floor(up[0] + t * up[1]), up[4]), ZERO)
    # All terms are integers that float32 represents exactly.
    column = along[2] * stride + across[2] * other_stride + along[3] * stride * count + across[3] * other_stride * cell
    return np.int32(column), np.int32(up[2] + up[3] * above if count + cell + above != total else TOP_Z + ONE)


@device_function
def first_blocked_crossing(
    columns: Columns, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any, line: Line
) -> int:
    """Return the first crossing of a horizontal axis that enters a blocking cell, 0 for none. The last cell never
    blocks.

    A first loop without branches computes all cells, in whole vectors of eight. A second loop finds the first set bit.

    Args:
        columns: bit columns, `[Y * X]`.
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


@device_function
def is_blocked_at(
    cell: int, columns: Columns, along: Any, across: Any, up: Any, stride: Any, other_stride: Any, total: Any
) -> bool:
    """Return True if a segment enters `cell` of a horizontal axis and is blocked there. The last cell never blocks."""
    count = (np.float32(cell) - along[2]) * along[3]
    if count < ONE or count > along[4]:
        return False
    column, bit = entered_column(count, along, across, up, stride, other_stride, total)
    return (columns[np.uint32(column)] >> bit) & 1 != 0


@device_function
def is_clear(n: int, other: int, columns: Columns, flat: Columns, by_mech: Any, blocked_at: Any, line: Line) -> bool:
    """Return True if no voxel blocks strictly between the cells of two mechs.

    The cell that last blocked the line between two mechs often blocks it again, so this cell is checked first.

    Args:
        n, other: indices of the two mechs.
        columns: bit columns, `[Y, X]`.
        flat: the same columns, `[Y * X]`.
        by_mech: positions and cells of all mechs, as `MechArrays`.
        blocked_at: cache of the last blocking cell, `[N, N]`, as 1 + cell along x, or -1 - cell along y; any content
            gives correct results.
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
