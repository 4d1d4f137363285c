"""The sum of weights by voxel: damage of several impacts on one voxel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.sim.kernels.dispatch import array, compiled, loops_on


def total_by_voxel(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """For each row, sum the weights of all counted rows with the same voxel.

    Args:
        voxel: `[B, S]` int32, linear voxel index of each row.
        counts: `[B, S]` bool, the rows to count.
        weight: `[S]` float32.

    Returns:
        `[B, S]` float32 sums, and `[B, S]` bool, whether a row is the first counted one with its voxel.
    """
    return (total_by_voxel_loops if loops_on(voxel.device) else total_by_voxel_dense)(voxel, counts, weight)


def total_by_voxel_dense(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """`total_by_voxel` by comparing every row with every other."""
    same = (voxel[:, :, None] == voxel[:, None]) & counts[:, None]  # [B, S, S]
    row = torch.arange(voxel.shape[1], device=voxel.device)
    earlier = row < row[:, None]
    return exact.sum(same * weight, -1), counts & ~(same & earlier).any(-1)


@torch.library.custom_op("echelon::total_by_voxel", mutates_args=(), device_types="cpu")
def total_by_voxel_loops(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """`total_by_voxel` by comparing every row with the counted rows."""
    total, first = weight.new_zeros(voxel.shape), counts.new_zeros(voxel.shape)
    rows = np.empty(voxel.shape[1], np.int64)
    _total_by_voxel_loop(array(voxel), array(counts), array(weight), rows, array(total), array(first))
    return total, first


@total_by_voxel_loops.register_fake
def _(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return weight.new_empty(voxel.shape), counts.new_empty(voxel.shape)


@compiled
def _total_by_voxel_loop(voxel: Any, counts: Any, weight: Any, rows: Any, total: Any, first: Any) -> None:
    """Fills `total` and `first`, `[B, S]` (all zeros); `rows [S]` is scratch memory."""
    for battle in range(voxel.shape[0]):
        found = 0
        for row in range(voxel.shape[1]):
            if counts[battle, row]:
                rows[found] = row
                found += 1
        if found == 0:
            continue
        for row in range(voxel.shape[1]):
            leads = counts[battle, row]
            for other in rows[:found]:
                if voxel[battle, other] == voxel[battle, row]:
                    total[battle, row] += weight[other]
                    leads = leads and other >= row
            first[battle, row] = leads
