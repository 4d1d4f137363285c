"""Collisions of hulls with solid voxels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.sim.kernels.dispatch import array, called, compiled, loops_on
from echelon.sim.terrain import columns_at, height_bits, hull_cells


def hits_terrain(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    """`[B, N]` bool: the box of a hull overlaps a solid voxel.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel is solid.
        pos: `[B, N, 3]` float32 vox, centres of the hulls.
        half_size: `[N, 3]` float32 vox.
        asked: `[B, N]` bool, hulls to compute; the result is false for the others.
    """
    return (hits_terrain_loops if loops_on(pos.device) else hits_terrain_dense)(columns, pos, half_size, asked)


def hits_terrain_dense(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    """`hits_terrain` for every hull, each over as many columns as the widest one needs."""
    x, y, _ = hull_cells(pos, half_size)
    return asked & ((columns_at(columns, x, y) & height_bits(pos, half_size)[..., None]) != 0).any(-1)


@torch.library.custom_op("echelon::hits_terrain", mutates_args=(), device_types="cpu")
def hits_terrain_loops(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    """`hits_terrain` hull by hull, each over its own columns."""
    hits = torch.zeros_like(asked, dtype=torch.bool)
    _hits_terrain_loop(array(columns), array(pos), array(half_size), array(asked), array(hits))
    return hits


@hits_terrain_loops.register_fake
def _(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    return asked.new_empty(asked.shape)


@called
def meets_terrain(columns: Any, x: Any, y: Any, z: Any, half: Any) -> Any:
    """`hits_terrain` of one hull of half size `half [3]` at a position, in `columns [Y, X]`."""
    top_y, top_x = columns.shape[0] - 1, columns.shape[1] - 1
    first = min(max(int(np.floor(z - half[2])), 0), 30)
    last = min(max(int(np.ceil(z + half[2])) - 1, 0), 30)
    tall = (1 << (last + 1)) - (1 << first)
    for row in range(int(np.floor(y - half[1])), int(np.ceil(y + half[1]))):
        for column in range(int(np.floor(x - half[0])), int(np.ceil(x + half[0]))):
            if columns[min(max(row, 0), top_y), min(max(column, 0), top_x)] & tall:
                return True
    return False


@compiled
def _hits_terrain_loop(columns: Any, pos: Any, half_size: Any, asked: Any, hits: Any) -> None:
    """Fills `hits [B, N]` (all false)."""
    for battle in range(pos.shape[0]):
        for mech in range(pos.shape[1]):
            if asked[battle, mech]:
                at = pos[battle, mech]
                hits[battle, mech] = meets_terrain(columns[battle], at[0], at[1], at[2], half_size[mech])
