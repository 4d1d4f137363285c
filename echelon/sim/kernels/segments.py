"""Voxels that a segment enters, for dense implementations and for loops.

A segment enters a new cell exactly where it crosses a grid plane: at the fraction t = (count - begin) / length for the
`count`-th plane of an axis. By then it has advanced floor(begin + t * length) cells along each other axis. So every
crossing has a closed form, without marching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.runtime.geometry import TINY, either
from echelon.sim.kernels.dispatch import ONE, ZERO, called

SIZE_Z = 31
"""Number of voxels in a bit column."""
TOP_Z, SMALL = np.float32(SIZE_Z - 1), np.float32(TINY)


class Segments(NamedTuple):
    """Segments with one tensor per axis; axes are mirrored so that coordinates increase along the segment."""

    begin: list[Tensor]
    """Offset of the start within the first cell, 0..1."""
    length: list[Tensor]
    """Length along the axis, vox."""
    cell: list[Tensor]
    """First cell, not mirrored."""
    sign: list[Tensor]
    """-1 where mirrored, else 1."""
    steps: list[Tensor]
    """Number of cells from the first to the last."""
    total: Tensor
    """Number of cells entered in total."""


class Crossing(NamedTuple):
    """The cells that segments enter by crossing one plane of an axis."""

    t: Tensor
    """Fraction of the segment, 0..1."""
    x: Tensor
    """int32."""
    y: Tensor
    """int32."""
    z: Tensor
    """int32."""
    enters: Tensor
    """bool: the crossing happens, at or before the end."""
    at_end: Tensor
    """bool: the cell contains the end."""


Size = tuple[int, int, int]
"""Size of a map along x, y, z, vox."""


def map_size(columns: Tensor) -> Size:
    """Size of a map with `columns [B, Y, X]`; z is the height of a bit column."""
    return columns.shape[2], columns.shape[1], SIZE_Z


def segments(start: Sequence[Tensor], end: Sequence[Tensor], size: Size) -> Segments:
    """Segments from `start` to `end`, vox, one tensor per axis. Cells outside the map are clamped to its border."""
    begin, length, cell, sign, steps = [], [], [], [], []
    for at, to, cells in zip(start, end, size, strict=True):
        first = at.floor().clamp(0, cells - 1)
        descends = to < at
        begin.append(torch.where(descends, first + 1 - at, at - first))
        length.append((to - at).abs())
        cell.append(first)
        sign.append(either(descends, -1.0, 1.0))
        steps.append((to.floor().clamp(0, cells - 1) - first).abs())
    return Segments(begin, length, cell, sign, steps, steps[0] + steps[1] + steps[2])


def cross(way: Segments, axis: int, count: int | Tensor) -> Crossing:
    """Crossings of segments with the `count`-th plane of an axis (1 is the first) and the cells entered there."""
    t = ((count - way.begin[axis]) / way.length[axis].clamp_min(TINY)).clamp_max(1.0)
    gone = [
        (begin + t * length).floor().minimum(steps) for begin, length, steps in zip(*way[:2], way.steps, strict=True)
    ]
    gone[axis] = way.steps[axis].clamp_max(count) if isinstance(count, int) else way.steps[axis].minimum(count)
    x, y, z = ((cell + sign * cells).int() for cell, sign, cells in zip(way.cell, way.sign, gone, strict=True))
    at_end = gone[0] + gone[1] + gone[2] == way.total
    return Crossing(t, x, y, z, count <= way.steps[axis], at_end)


@called
def segment_axis(at: Any, to: Any, top: Any) -> Any:
    """`segments` for one axis of one segment: begin, length, cell, sign, steps; `top` is the last cell of the axis."""
    first = min(max(np.floor(at), ZERO), top)
    steps = abs(min(max(np.floor(to), ZERO), top) - first)
    # Two choices of a number each, for a branch of this kind is predicted half of the time.
    begin, sign = (first + ONE - at if to < at else at - first), (-ONE if to < at else ONE)
    return begin, abs(to - at), first, sign, steps


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
    gone = count + gone_b + gone_c
    if axis == 0:
        return gone, cell_a, cell_b, cell_c
    if axis == 1:
        return gone, cell_c, cell_a, cell_b
    return gone, cell_b, cell_c, cell_a
