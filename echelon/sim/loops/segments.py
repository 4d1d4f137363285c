"""The cells that a segment enters, one after the other. See `sim/segments.py` and `rubble.clear_leaves`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, called
from echelon.sim.loops.arithmetic import SMALL

TOP_Z = np.float32(30)


@called
def cell_at(at: Any, top: Any) -> Any:
    """The cell of a coordinate, as a float32; `top` is the last cell of the axis."""
    return min(max(np.floor(at), ZERO), top)


@called
def axis_between(at: Any, to: Any, first: Any, last: Any) -> Any:
    """`segments` for one axis of one segment from cell to cell: begin, length, cell, sign, steps."""
    # Two choices of a number each, for a branch of this kind is predicted half of the time.
    begin, sign = (first + ONE - at if to < at else at - first), (-ONE if to < at else ONE)
    return begin, abs(to - at), first, sign, abs(last - first)


@called
def segment_axis(at: Any, to: Any, top: Any) -> Any:
    """`axis_between` of the cells of two coordinates; `top` is the last cell of the axis."""
    return axis_between(at, to, cell_at(at, top), cell_at(to, top))


@called
def entered_cell(axis: int, count: Any, t: Any, a: Any, b: Any, c: Any) -> Any:
    """`cross` for one segment: number of cells entered so far, and x, y, z of the cell entered.

    Args:
        axis: 0, 1, 2 for x, y, z.
        a, b, c: the `segment_axis` of this axis, and those of the next two in turn.
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


@called
def first_on_axis(axis: int, columns: Any, a: Any, b: Any, c: Any, planes: int, past_end: bool, best: Any) -> Any:
    """The first hit, or `best` if that is sooner, among the cells entered by crossing planes of one axis.

    Args:
        axis, a, b, c: as in `entered_cell`.
        columns: `[Y, X]`.
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


@called
def first_on_segment(
    columns: Any, x: Any, y: Any, z: Any, to_x: Any, to_y: Any, to_z: Any, planes: int, past_end: bool, any_hit: bool
) -> Any:
    """`first_hit` of one segment, of at most `planes` crossings of any axis, in `columns [Y, X]`."""
    top_x, top_y = np.float32(columns.shape[1] - 1), np.float32(columns.shape[0] - 1)
    a, b, c = segment_axis(x, to_x, top_x), segment_axis(y, to_y, top_y), segment_axis(z, to_z, TOP_Z)
    best = first_on_axis(0, columns, a, b, c, planes, past_end, INFINITY)
    if not any_hit or best == INFINITY:
        best = first_on_axis(1, columns, b, c, a, planes, past_end, best)
    if not any_hit or best == INFINITY:
        best = first_on_axis(2, columns, c, a, b, planes, past_end, best)
    return best


@called
def clear_voxel(opaque: Any, solid: Any, x: int, y: int, z: int) -> None:
    """Remove the leaf of a voxel, if it holds one: what is opaque and not solid."""
    opaque[y, x] &= ~(np.int32(1) << np.int32(z)) | solid[y, x]


@called
def clear_on_axis(axis: int, opaque: Any, solid: Any, a: Any, b: Any, c: Any, planes: int) -> None:
    """Remove the leaves of the cells entered by crossing planes of one axis, with arguments as in `entered_cell`."""
    length = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), planes) + 1):
        t = min((np.float32(count) - a[0]) / length, ONE)
        _, x, y, z = entered_cell(axis, np.float32(count), t, a, b, c)
        clear_voxel(opaque, solid, x, y, z)


@called
def clear_on_segment(opaque: Any, solid: Any, x: int, y: int, z: int, start: Any, end: Any, planes: int) -> None:
    """`clear_leaves` of one shot: at the voxel (x, y, z), and on its way, in `opaque`, `solid [Y, X]`."""
    top_x, top_y = np.float32(opaque.shape[1] - 1), np.float32(opaque.shape[0] - 1)
    clear_voxel(opaque, solid, x, y, z)
    a = segment_axis(start[0], end[0], top_x)
    b = segment_axis(start[1], end[1], top_y)
    c = segment_axis(start[2], end[2], TOP_Z)
    clear_on_axis(0, opaque, solid, a, b, c, planes)
    clear_on_axis(1, opaque, solid, b, c, a, planes)
    clear_on_axis(2, opaque, solid, c, a, b, planes)
