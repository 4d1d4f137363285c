"""Sets without their empty places, on a CPU: what `encoders.MaskedPool` does for all places, as loops over the filled.

Two thirds of a contact table are empty, and a CPU gains by leaving them out of every product; a GPU would have to tell
the host how many are filled. The answers are the same: tests hold the two against each other.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

ZERO = np.float32(0.0)


@numba.njit(cache=True)
def list_filled(mask: Any, ends: Any, index: Any) -> None:
    """Places that `mask [R, C]` fills, into the front of `index [R * C]`; where each set ends there, into `ends`."""
    count = 0
    for row in range(mask.shape[0]):
        for place in range(mask.shape[1]):
            if mask[row, place]:
                index[count] = row * mask.shape[1] + place
                count += 1
        ends[row] = count


@numba.njit(cache=True)
def pool_all(x: Any, ends: Any, out: Any, largest: Any) -> None:
    """Mean and maximum of max(x, 0) over each set, into `out [R, 2 * W]`; whose the maximum is, into `largest [R, W]`.

    `x [F, W]` holds the sets' members one after the other.
    """
    width = x.shape[1]
    begin = 0
    for row in range(len(ends)):
        mean, most, who = out[row, :width], out[row, width:], largest[row]
        mean[:], most[:], who[:] = ZERO, ZERO, -1
        for member in range(begin, ends[row]):
            for w in range(width):
                value = max(x[member, w], ZERO)
                mean[w] += value
                if value > most[w]:
                    most[w] = value
                    who[w] = member
        mean /= np.float32(max(ends[row] - begin, 1))
        begin = ends[row]


@numba.njit(cache=True)
def unpool_all(grad: Any, x: Any, ends: Any, largest: Any, out: Any) -> None:
    """The gradient of `pool_all`, from `grad [R, 2 * W]` into `out [F, W]`."""
    width = x.shape[1]
    begin = 0
    for row in range(len(ends)):
        share = np.float32(1.0) / np.float32(max(ends[row] - begin, 1))
        for member in range(begin, ends[row]):
            for w in range(width):
                out[member, w] = grad[row, w] * share if x[member, w] > ZERO else ZERO
        for w in range(width):
            if largest[row, w] >= 0:
                out[largest[row, w], w] += grad[row, width + w]
        begin = ends[row]


def filled(mask: Tensor) -> tuple[Tensor, Tensor]:
    """`[F]` int64 places that `mask [R, C]` fills, counted through all sets, and `[R]` int64 where each set ends."""
    ends = torch.empty(mask.shape[0], dtype=torch.int64)
    index = torch.empty(mask.numel(), dtype=torch.int64)
    list_filled(mask.numpy(), ends.numpy(), index.numpy())
    return index[: int(ends.numpy()[-1])], ends


class PackedPool(torch.autograd.Function):
    """`MaskedPool` of members that stand one after the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Tensor) -> Tensor:
        """`[R, 2 * W]` from `x [F, W]` float32 and `ends [R]`."""
        out = x.new_empty((len(ends), 2 * x.shape[1]))
        largest = torch.empty((len(ends), x.shape[1]), dtype=torch.int32)
        pool_all(x.detach().numpy(), ends.numpy(), out.numpy(), largest.numpy())
        ctx.save_for_backward(x, ends, largest)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The mean's gradient to every entry above 0, the maximum's to the largest."""
        x, ends, largest = ctx.saved_tensors
        out = torch.empty_like(x)
        unpool_all(grad.contiguous().numpy(), x.numpy(), ends.numpy(), largest.numpy(), out.numpy())
        return out, None
