"""Segments through ground and smoke as loops of a CPU: lines of sight, flights, clouds between mechs, torn leaves.

On a GPU all crossings of all segments are looked up at once. As in `loops`, the arithmetic is that of the dense forms,
here of `terrain`, `sight` and `rubble`, and so are the answers.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from echelon.runtime.geometry import TINY
from echelon.sim.loops import INFINITY, ONE, ZERO, array

HALF, TOP_Z, SMALL = np.float32(0.5), np.float32(30.0), np.float32(TINY)


@numba.njit(inline="always")
def lay(at: Any, to: Any, top: Any) -> Any:
    """One axis of a segment: way gone in the first cell, way to go, first cell, sign, cells to the last one."""
    first = min(max(np.floor(at), ZERO), top)
    steps = abs(min(max(np.floor(to), ZERO), top) - first)
    if to < at:
        return first + ONE - at, at - to, first, -ONE, steps
    return at - first, to - at, first, ONE, steps


@numba.njit(inline="always")
def scan(axis: int, columns: Any, a: Any, b: Any, c: Any, reach: int, past_end: bool, best: Any) -> Any:
    """The nearest hit, before `best`, among the cells a segment enters by crossing planes of one axis.

    Args:
        axis: 0, 1, 2 for x, y, z; a is this axis of the segment, b and c are the next two in turn.
    """
    total = a[4] + b[4] + c[4]
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), reach) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        if t >= best:
            break
        gone, x, y, z = enter(axis, np.float32(count), t, a, b, c)
        if not past_end and gone == total:
            continue
        if (columns[y, x] >> z) & 1:
            return t
    return best


@numba.njit(inline="always")
def enter(axis: int, count: Any, t: Any, a: Any, b: Any, c: Any) -> Any:
    """What a segment enters as it crosses, at `t`, the `count`-th plane of an axis: cells gone so far, and x, y, z.

    The axes as in `scan`.
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


@numba.njit(cache=True, nogil=True)
def trace_all(
    columns: Any, start: Any, end: Any, asked: Any, reach: Any, past_end: bool, whether: bool, hit: Any
) -> None:
    """`trace` for arrays, into `hit [B, R]`."""
    top_x, top_y = np.float32(columns.shape[2] - 1), np.float32(columns.shape[1] - 1)
    for battle in range(columns.shape[0]):
        own = columns[battle]
        for row in range(start.shape[1]):
            best = INFINITY
            if asked[battle, row]:
                x = lay(start[battle, row, 0], end[battle, row, 0], top_x)
                y = lay(start[battle, row, 1], end[battle, row, 1], top_y)
                z = lay(start[battle, row, 2], end[battle, row, 2], TOP_Z)
                best = scan(0, own, x, y, z, reach[0], past_end, best)
                if not whether or best == INFINITY:
                    best = scan(1, own, y, z, x, reach[1], past_end, best)
                if not whether or best == INFINITY:
                    best = scan(2, own, z, x, y, reach[2], past_end, best)
            hit[battle, row] = best


@numba.njit(inline="always")
def pluck(opaque: Any, solid: Any, x: int, y: int, z: int) -> None:
    """Remove the leaf of a voxel, if it holds one: what is opaque and not solid."""
    opaque[y, x] &= ~(np.int32(1) << np.int32(z)) | solid[y, x]


@numba.njit(inline="always")
def pluck_along(axis: int, opaque: Any, solid: Any, a: Any, b: Any, c: Any, reach: int) -> None:
    """Remove the leaves of the cells that a segment enters by crossing planes of one axis, as in `scan`."""
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), reach) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        _, x, y, z = enter(axis, np.float32(count), t, a, b, c)
        pluck(opaque, solid, x, y, z)


@numba.njit(cache=True, nogil=True)
def strip_all(opaque: Any, solid: Any, muzzle: Any, start: Any, point: Any, flew: Any, reach: Any) -> None:
    """`strip` for arrays."""
    top_x, top_y = np.float32(opaque.shape[2] - 1), np.float32(opaque.shape[1] - 1)
    for battle in range(opaque.shape[0]):
        leaves, walls = opaque[battle], solid[battle]
        for row in range(start.shape[1]):
            if flew[battle, row]:
                pluck(leaves, walls, muzzle[battle, row, 0], muzzle[battle, row, 1], muzzle[battle, row, 2])
                x = lay(start[battle, row, 0], point[battle, row, 0], top_x)
                y = lay(start[battle, row, 1], point[battle, row, 1], top_y)
                z = lay(start[battle, row, 2], point[battle, row, 2], TOP_Z)
                pluck_along(0, leaves, walls, x, y, z, reach[row])
                pluck_along(1, leaves, walls, y, z, x, reach[row])
                pluck_along(2, leaves, walls, z, x, y, reach[row])


@numba.njit(inline="always")
def apart_sq(one: Any, other: Any) -> Any:
    """Squared distance of two points."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


@numba.njit(cache=True, nogil=True)
def veil_all(pos: Any, clouds: Any, hangs: Any, pairs: Any, radius: Any, asked: Any, veiled: Any) -> None:
    """`veil` for arrays, into `veiled [B, P]`."""
    radius_sq = radius * radius
    near = np.empty((pos.shape[1], clouds.shape[1]), np.float32)
    for battle in range(pos.shape[0]):
        veiled[battle] = False
        count = 0
        for cloud in range(clouds.shape[1]):
            if hangs[battle, cloud]:
                for mech in range(pos.shape[1]):
                    near[mech, count] = apart_sq(clouds[battle, cloud], pos[battle, mech])
                count += 1
        if count == 0:
            continue
        for row in range(pairs.shape[1]):
            if not asked[battle, row]:
                continue
            one, two = pairs[0, row], pairs[1, row]
            apart = apart_sq(pos[battle, two], pos[battle, one])
            for cloud in range(count):
                a, b = near[one, cloud], near[two, cloud]
                along = HALF * (a + apart - b)
                beside = along > ZERO and along < apart and (a - radius_sq) * apart < along * along
                if a < radius_sq or b < radius_sq or beside:
                    veiled[battle, row] = True
                    break


@torch.library.custom_op("echelon::trace", mutates_args=(), device_types="cpu")
def trace(
    columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, reach: list[int], past_end: bool, whether: bool
) -> Tensor:
    """`[B, R]` float32 share of the way at which each segment meets a blocking voxel, infinity where it meets none.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel blocks.
        start, end: `[B, R, 3]` float32 vox.
        asked: `[B, R]` bool; infinity for the others.
        reach: planes looked up along x, y and z.
        past_end: whether the cell that holds `end` may block too.
        whether: any hit will do, not the nearest.
    """
    hit = torch.empty(start.shape[:2])
    planes = np.array(reach)
    trace_all(array(columns), array(start), array(end), array(asked), planes, past_end, whether, array(hit))
    return hit


@trace.register_fake
def _(columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, reach: Any, past_end: bool, whether: bool) -> Tensor:
    return start.new_empty(start.shape[:2])


@torch.library.custom_op("echelon::strip", mutates_args=("opaque",), device_types="cpu")
def strip(
    opaque: Tensor, solid: Tensor, muzzle: Tensor, start: Tensor, point: Tensor, flew: Tensor, reach: Tensor
) -> None:
    """Remove the leaves that shots pass, what is opaque and not solid, from `opaque [B, Y, X]` in place.

    Args:
        solid: `[B, Y, X]` int32, like `opaque` a bit for each z.
        muzzle: `[B, S, 3]` int64 x, y, z of a voxel each shot passes at its start.
        start, point: `[B, S, 3]` float32 vox, the ends of its way; it passes what it enters between them.
        flew: `[B, S]` bool, the shots that fly.
        reach: `[S]` int64, planes of an axis looked up.
    """
    ways = array(muzzle), array(start), array(point), array(flew), array(reach)
    # Not by `array`: what is written must not go into a copy.
    strip_all(opaque.detach().numpy(), array(solid), *ways)


@strip.register_fake
def _(opaque: Tensor, solid: Tensor, muzzle: Tensor, start: Tensor, point: Tensor, flew: Tensor, reach: Tensor) -> None:
    return None


@torch.library.custom_op("echelon::veil", mutates_args=(), device_types="cpu")
def veil(pos: Tensor, clouds: Tensor, hangs: Tensor, pairs: Tensor, radius: float, asked: Tensor) -> Tensor:
    """`[B, P]` bool: the middle of a cloud lies within its radius of the segment between two mechs.

    Args:
        pos: `[B, N, 3]` float32 vox, the mechs.
        clouds: `[B, C, 3]` float32 vox, of which those count that `hangs [B, C]` bool.
        pairs: `[2, P]` int64.
        radius: of every cloud, vox.
        asked: `[B, P]` bool; false for the others.
    """
    veiled = torch.empty(asked.shape, dtype=torch.bool)
    size = np.float32(radius)
    veil_all(array(pos), array(clouds), array(hangs), array(pairs), size, array(asked), array(veiled))
    return veiled


@veil.register_fake
def _(pos: Tensor, clouds: Tensor, hangs: Tensor, pairs: Tensor, radius: float, asked: Tensor) -> Tensor:
    return asked.new_empty(asked.shape)
