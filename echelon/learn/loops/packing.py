"""`encoder.MaskedPool` on packed sets for the CPU: padding rows are removed and numba loops run over the valid rows.

Two thirds of a contact table are padding, and a CPU gains by leaving them out of every product; a GPU would have to
sync with the host to learn how many rows are valid. Both return the same results; tests compare them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, ZERO, array, compiled, halved, widened


@compiled
def list_valid_rows(mask: Any, ends: Any, index: Any) -> None:
    """Write flat indices of the True entries of `mask [R, C]` to the front of `index [R * C]`, and the end of each set
    among them to `ends [R]`."""
    count = 0
    for row in range(mask.shape[0]):
        for column in range(mask.shape[1]):
            if mask[row, column]:
                index[count] = row * mask.shape[1] + column
                count += 1
        ends[row] = count


@compiled
def pool_all(x: Any, is_half: bool, ends: Any, maxima: Any, out: Any, largest: Any) -> None:
    """Write mean and maximum of ReLU(x) over each set to `out [R, 2 * W]`.

    `largest [R, W]` receives the row of each maximum, -1 where no entry is above 0. `x [F, W]` holds the members of all
    sets one after the other, and behind the last `ends` rows that belong to none. `maxima [W]` is scratch memory.
    """
    width = x.shape[1]
    start = 0
    for row in range(len(ends)):
        for w in range(width):
            out[row, w], maxima[w], largest[row, w] = ZERO, ZERO, -1
        for member in range(start, ends[row]):
            # One loop a sum: LLVM computes several columns at once only where a loop writes one array of each type.
            for w in range(width):
                out[row, w] += max(widened(x[member, w], is_half), ZERO)
            for w in range(width):
                value, maximum = widened(x[member, w], is_half), maxima[w]
                largest[row, w] = np.int32(member) if value > maximum else largest[row, w]
                maxima[w] = max(value, maximum)
        share = ONE / np.float32(max(ends[row] - start, 1))
        for w in range(width):
            out[row, w] *= share
        for w in range(width):
            out[row, width + w] = maxima[w]
        start = ends[row]


@compiled
def unpool_all(grad: Any, x: Any, is_half: bool, ends: Any, largest: Any, out: Any) -> None:
    """Backward pass of `pool_all`, from `grad [R, 2 * W]` into `out [F, W]`."""
    width = x.shape[1]
    start = 0
    for row in range(len(ends)):
        share = ONE / np.float32(max(ends[row] - start, 1))
        for member in range(start, ends[row]):
            for w in range(width):
                value = grad[row, w] * share + (grad[row, width + w] if largest[row, w] == member else ZERO)
                value = value if widened(x[member, w], is_half) > ZERO else ZERO
                if is_half:
                    out[member, w] = halved(value)
                else:
                    out[member, w] = value
        start = ends[row]
    for member in range(start, len(out)):
        for w in range(width):
            out[member, w] = 0


def padded_count(count: int, limit: int) -> int:
    """`count` rounded up by at most an eighth, to one of eight numbers between two powers of two; at most `limit`.

    oneDNN generates code for every shape that it meets. With as many rows as happened to be valid that took a third of
    a learning step (64 against 42 ms for 2,560 decisions of a mech).
    """
    step = max(2 ** (count.bit_length() - 4), 1)
    return min(-(-count // step) * step, limit)


def valid_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """`[F]` int64 flat indices of the True entries of `mask [R, C]`, and `[R]` int64 end of each set among them.

    The first of the entries is repeated until there are `padded_count`.
    """
    ends = torch.empty(mask.shape[0], dtype=torch.int64, device="cpu")
    index = torch.empty(mask.numel(), dtype=torch.int64, device="cpu")
    list_valid_rows(mask.numpy(), ends.numpy(), index.numpy())
    count = int(ends.numpy()[-1])
    padded = padded_count(count, mask.numel())
    index[count:padded] = index[:1]
    return index[:padded], ends


class PackedPool(torch.autograd.Function):
    """`MaskedPool` of packed members."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Tensor) -> Tensor:
        """`[R, 2 * W]` float32 from `x [F, W]` float32 or bfloat16, and `ends [R]`."""
        out = x.new_empty((len(ends), 2 * x.shape[1]), dtype=torch.float32)
        largest = torch.empty((len(ends), x.shape[1]), dtype=torch.int32, device="cpu")
        maxima = np.empty(x.shape[1], np.float32)
        pool_all(array(x), x.dtype == torch.bfloat16, array(ends), maxima, array(out), array(largest))
        ctx.save_for_backward(x, ends, largest)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Gradient of the mean to every entry above 0, of the maximum to the largest entry."""
        x, ends, largest = ctx.saved_tensors
        out, arrays = torch.empty_like(x), [array(values) for values in (ends, largest)]
        unpool_all(array(grad.contiguous()), array(x), x.dtype == torch.bfloat16, *arrays, array(out))
        return out, None
