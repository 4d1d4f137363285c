"""Removal of the foliage that shots pass. On a GPU it is part of `sim/gpu/chip.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.sim.kernels.dispatch import ONE, array, called, compiled, loops_on, shared_array
from echelon.sim.kernels.segments import SMALL, TOP_Z, cross, entered_cell, map_size, segment_axis, segments
from echelon.sim.kernels.total_by_voxel import total_by_voxel
from echelon.sim.terrain import Voxel, add_bits, columns_at, voxel_index


def clear_leaves(
    opaque: Tensor,
    solid: Tensor,
    muzzle: Voxel,
    start: Tensor,
    end: Tensor,
    flew: Tensor,
    planes: Tensor,
    slots_by_plane: Sequence[Tensor],
) -> None:
    """Remove foliage (voxels that are opaque and not solid) along the paths of shots from `opaque`, in place.

    Args:
        opaque, solid: `[B, Y, X]` int32, bit z set where a voxel is opaque, or solid.
        muzzle: `[B, S]` int64 x, y, z of a voxel that each shot passes at its start.
        start, end: `[B, S, 3]` float32 vox, ends of the path of each shot.
        flew: `[B, S]` bool, the shots that fly.
        planes: `[S]` int64, maximum number of grid planes per axis that each shot crosses.
        slots_by_plane: entry k - 1 lists the shots that may cross k planes, `[K]` int64; equivalent to `planes`.
    """
    if loops_on(opaque.device):
        clear_leaves_loops(opaque, solid, *muzzle, start, end, flew, planes)
    else:
        clear_leaves_dense(opaque, solid, muzzle, start, end, flew, slots_by_plane)


def clear_leaves_dense(
    opaque: Tensor,
    solid: Tensor,
    muzzle: Voxel,
    start: Tensor,
    end: Tensor,
    flew: Tensor,
    slots_by_plane: Sequence[Tensor],
) -> None:
    """`clear_leaves` with one crossing of all shots at a time."""
    clear_voxels(opaque, solid, muzzle, flew)
    for before, slots in enumerate(slots_by_plane):
        way = segments(start[:, slots].unbind(-1), end[:, slots].unbind(-1), map_size(solid))
        for axis in range(3):
            crossing = cross(way, axis, before + 1)
            voxel = (crossing.x.long(), crossing.y.long(), crossing.z.long())
            clear_voxels(opaque, solid, voxel, flew[:, slots] & crossing.enters)


def clear_voxels(opaque: Tensor, solid: Tensor, voxel: Voxel, passes: Tensor) -> None:
    """Remove the leaves of the voxels `[B, R]` that shots pass, `[B, R]` bool, from `opaque` in place."""
    x, y, z = voxel
    bit = torch.ones_like(z, dtype=torch.int32) << z.int()
    leaf = (columns_at(opaque, x, y) & ~columns_at(solid, x, y) & bit) != 0
    clears = passes & leaf
    _, first = total_by_voxel(voxel_index(voxel, opaque), clears, torch.ones_like(x[0], dtype=torch.float32))
    add_bits(opaque, x, y, torch.where(first, -bit, 0))


@torch.library.custom_op("echelon::clear_leaves", mutates_args=("opaque",), device_types="cpu")
def clear_leaves_loops(
    opaque: Tensor,
    solid: Tensor,
    muzzle_x: Tensor,
    muzzle_y: Tensor,
    muzzle_z: Tensor,
    start: Tensor,
    end: Tensor,
    flew: Tensor,
    planes: Tensor,
) -> None:
    """`clear_leaves` shot by shot."""
    muzzle = array(muzzle_x), array(muzzle_y), array(muzzle_z)
    ways = array(start), array(end), array(flew), array(planes)
    _clear_leaves_loop(shared_array(opaque), array(solid), muzzle, *ways)


@clear_leaves_loops.register_fake
def _(opaque: Tensor, solid: Tensor, *shots: Tensor) -> None:
    return None


@called
def _clear_voxel(opaque: Any, solid: Any, x: int, y: int, z: int) -> None:
    """Remove the leaf of a voxel, if it holds one: what is opaque and not solid."""
    opaque[y, x] &= ~(np.int32(1) << np.int32(z)) | solid[y, x]


@called
def _clear_on_axis(axis: int, opaque: Any, solid: Any, a: Any, b: Any, c: Any, planes: int) -> None:
    """Remove the leaves of the cells entered by crossing planes of one axis, with arguments as in `entered_cell`."""
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), planes) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        _, x, y, z = entered_cell(axis, np.float32(count), t, a, b, c)
        _clear_voxel(opaque, solid, x, y, z)


@called
def clear_on_segment(opaque: Any, solid: Any, x: int, y: int, z: int, start: Any, end: Any, planes: int) -> None:
    """`clear_leaves` of one shot: at the voxel (x, y, z), and on its way, in `opaque`, `solid [Y, X]`."""
    top_x, top_y = np.float32(opaque.shape[1] - 1), np.float32(opaque.shape[0] - 1)
    _clear_voxel(opaque, solid, x, y, z)
    a = segment_axis(start[0], end[0], top_x)
    b = segment_axis(start[1], end[1], top_y)
    c = segment_axis(start[2], end[2], TOP_Z)
    _clear_on_axis(0, opaque, solid, a, b, c, planes)
    _clear_on_axis(1, opaque, solid, b, c, a, planes)
    _clear_on_axis(2, opaque, solid, c, a, b, planes)


@compiled
def _clear_leaves_loop(opaque: Any, solid: Any, muzzle: Any, start: Any, end: Any, flew: Any, planes: Any) -> None:
    """Writes to `opaque [B, Y, X]`; `muzzle` are x, y and z."""
    for battle in range(opaque.shape[0]):
        for row in range(start.shape[1]):
            if flew[battle, row]:
                x, y, z = muzzle[0][battle, row], muzzle[1][battle, row], muzzle[2][battle, row]
                ends = start[battle, row], end[battle, row]
                clear_on_segment(opaque[battle], solid[battle], x, y, z, *ends, planes[row])
