"""First blocking voxel along segments: for shots in flight, lines of sight and cover from explosions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime.compile import materialize
from echelon.sim.kernels.dispatch import INFINITY, ONE, array, called, compiled, loops_on
from echelon.sim.kernels.segments import (
    SMALL,
    TOP_Z,
    Segments,
    cross,
    entered_cell,
    map_size,
    segment_axis,
    segments,
)
from echelon.sim.terrain import has_bit

FEW_CROSSINGS = 4
"""Maximum number of planes per axis up to which crossings are computed one after the other."""


def first_hit(
    columns: Tensor,
    start: Tensor,
    end: Tensor,
    reach_vox: float,
    past_end: bool,
    asked: Tensor | None = None,
    any_hit: bool = False,
) -> Tensor:
    """Fraction of each segment at which it enters the first blocking voxel.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel blocks.
        start, end: `[B, R, 3]` float32 vox, or `[B, ..., 3]` that broadcast.
        reach_vox: maximum extent of segments along any axis; the rest of longer ones is ignored.
        past_end: whether the cell of `end` may block too. The cell of `start` never does.
        asked: `[B, R]` or `[B, ...]` bool, segments to compute; all by default.
        any_hit: stop at any blocking voxel. Then only whether the result is finite is defined.

    Returns:
        `[B, R]` or `[B, ...]` float32 in 0..1; infinity if nothing blocks, and for segments not in `asked`.
    """
    planes = [min(int(reach_vox) + 1, cells - 1) for cells in map_size(columns)]
    if not loops_on(columns.device):
        return first_hit_dense(columns, start, end, planes, past_end, asked)
    start, end = torch.broadcast_tensors(start, end)
    if asked is None:
        asked = torch.ones_like(start[..., 0], dtype=torch.bool)
    rows = asked.shape[1:]
    ends = start.flatten(1, -2), end.flatten(1, -2)
    return first_hit_loops(columns, *ends, asked.flatten(1), planes, past_end, any_hit).unflatten(1, rows)


def is_blocked(columns: Tensor, start: Tensor, end: Tensor, reach_vox: float, asked: Tensor) -> Tensor:
    """bool: a voxel blocks strictly between the cells of `start` and `end`; false for segments not in `asked`."""
    return first_hit(columns, start, end, reach_vox, False, asked, any_hit=True).isfinite()


def first_hit_dense(
    columns: Tensor, start: Tensor, end: Tensor, planes: list[int], past_end: bool, asked: Tensor | None = None
) -> Tensor:
    """`first_hit` over all crossings of all segments at once, up to `planes` crossings along x, y and z."""
    size = map_size(columns)
    # Compiled, few crossings are fastest one after the other, vectorised over segments (shields of bursts: 10 ms
    # against 36); many as an axis of their own, with what is known of each segment kept beside it.
    in_turn = max(planes) <= FEW_CROSSINGS
    if in_turn:
        way = segments(start.unbind(-1), end.unbind(-1), size)
    else:
        way = segments(start.unsqueeze(-2).unbind(-1), end.unsqueeze(-2).unbind(-1), size)
        begin, length, cell, sign, steps = ([materialize(value) for value in by_axis] for by_axis in way[:-1])
        way = Segments(begin, length, cell, sign, steps, materialize(way.total))
    battle = torch.arange(columns.shape[0], device=columns.device).view(-1, *[1] * (way.length[0].dim() - 1))
    hits = []
    for axis in range(3):
        plane = torch.arange(1, planes[axis] + 1, device=columns.device, dtype=start.dtype)
        for count in range(1, planes[axis] + 1) if in_turn else [plane]:
            t, x, y, z, enters, at_end = cross(way, axis, count)
            blocks = enters & has_bit(columns[battle, y, x], z)
            if not past_end:
                blocks = blocks & ~at_end
            hit = torch.where(blocks, t, torch.inf)
            hits.append(hit if in_turn else hit.amin(-1))
    first = materialize(functools.reduce(torch.minimum, hits))
    return first if asked is None else torch.where(asked, first, torch.inf)


@torch.library.custom_op("echelon::first_hit", mutates_args=(), device_types="cpu")
def first_hit_loops(
    columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, planes: list[int], past_end: bool, any_hit: bool
) -> Tensor:
    """`first_hit` segment by segment, for `start`, `end` `[B, R, 3]`, `asked [B, R]` and `planes` along x, y and z."""
    hit = start.new_empty(start.shape[:2])
    ends = array(start), array(end)
    _first_hit_loop(array(columns), *ends, array(asked), max(planes), past_end, any_hit, array(hit))
    return hit


@first_hit_loops.register_fake
def _(columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, planes: Any, past_end: bool, any_hit: bool) -> Tensor:
    return start.new_empty(start.shape[:2])


@called
def _first_on_axis(axis: int, columns: Any, a: Any, b: Any, c: Any, planes: int, past_end: bool, best: Any) -> Any:
    """The first hit, or `best` if that is sooner, among the cells entered by crossing planes of one axis.

    Args:
        axis, a, b, c: as in `entered_cell`.
        columns: `[Y, X]`.
    """
    total = a[4] + b[4] + c[4]
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), planes) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        if t >= best:
            break
        gone, x, y, z = entered_cell(axis, np.float32(count), t, a, b, c)
        if not past_end and gone == total:
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
    best = _first_on_axis(0, columns, a, b, c, planes, past_end, INFINITY)
    if not any_hit or best == INFINITY:
        best = _first_on_axis(1, columns, b, c, a, planes, past_end, best)
    if not any_hit or best == INFINITY:
        best = _first_on_axis(2, columns, c, a, b, planes, past_end, best)
    return best


@compiled
def _first_hit_loop(
    columns: Any, start: Any, end: Any, asked: Any, planes: int, past_end: bool, any_hit: bool, hit: Any
) -> None:
    """Fills `hit [B, R]`."""
    for battle in range(columns.shape[0]):
        own = columns[battle]
        for row in range(start.shape[1]):
            hit[battle, row] = INFINITY
            if asked[battle, row]:
                at, to = start[battle, row], end[battle, row]
                hit[battle, row] = first_on_segment(
                    own, at[0], at[1], at[2], to[0], to[1], to[2], planes, past_end, any_hit
                )
