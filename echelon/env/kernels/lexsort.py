"""Short rows put in order by two keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.sim.kernels.dispatch import array, compiled, loops_on


def lexsort(key: Tensor, tie_key: Tensor) -> Tensor:
    """`[..., N]` int64: the indices that sort each row by `key`, equals by `tie_key`, and equals of both by index.

    Args:
        key, tie_key: `[..., N]` float32.
    """
    return (lexsort_loops if loops_on(key.device) else lexsort_dense)(key, tie_key)


def lexsort_dense(key: Tensor, tie_key: Tensor) -> Tensor:
    """`lexsort` by the rank of each item, the number of items before it; for a handful faster than sorting."""
    index = torch.arange(key.shape[-1], device=key.device)
    mine, other = (key[..., None], tie_key[..., None]), (key[..., None, :], tie_key[..., None, :])
    sooner = (other[1] < mine[1]) | ((other[1] == mine[1]) & (index < index[:, None]))
    rank = exact.sum((other[0] < mine[0]) | ((other[0] == mine[0]) & sooner), -1)
    return torch.zeros_like(rank).scatter(-1, rank, index.expand_as(rank))


@torch.library.custom_op("echelon::lexsort", mutates_args=(), device_types="cpu")
def lexsort_loops(key: Tensor, tie_key: Tensor) -> Tensor:
    """`lexsort` row by row."""
    order = torch.empty(key.shape, dtype=torch.int64, device="cpu")
    rank = np.empty(key.shape[-1], np.int32)
    _lexsort_loop(array(key.flatten(0, -2)), array(tie_key.flatten(0, -2)), rank, array(order.flatten(0, -2)))
    return order


@lexsort_loops.register_fake
def _(key: Tensor, tie_key: Tensor) -> Tensor:
    return key.new_empty(key.shape, dtype=torch.int64)


@compiled
def _lexsort_loop(key: Any, tie_key: Any, rank: Any, order: Any) -> None:
    """Fills `order [R, N]`; `rank [N]` is scratch memory."""
    count = key.shape[1]
    for row in range(key.shape[0]):
        for item in range(count):
            rank[item] = 0
        for other in range(count):
            its_key, its_tie_key = key[row, other], tie_key[row, other]
            # Neither `and` nor `or`: without branches the loop is vectorised.
            for item in range(count):
                sooner = (its_tie_key < tie_key[row, item]) | ((its_tie_key == tie_key[row, item]) & (other < item))
                rank[item] += (its_key < key[row, item]) | ((its_key == key[row, item]) & sooner)
        for item in range(count):
            order[row, rank[item]] = item
