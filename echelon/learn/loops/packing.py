"""`encoder.MaskedPool` on packed sets for the CPU: padding rows are removed and numba loops run over the valid rows.

Two thirds of the rows of a contact table are padding, so a CPU is faster if they are removed. On a GPU, counting the
valid rows would require a host sync. The packed and the padded form return the same results; tests compare them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, ZERO, array, compiled, halved, widened


@compiled
def list_valid_rows(mask: Any, ends: Any, index: Any) -> None:
    """Write the flat indices of the True entries of `mask [R, C]` to the start of `index [R * C]`. Write to `ends [R]`
    where the indices of each set end in `index`.
    """
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

    `x [F, W]` holds the members of all sets in order, then padding rows after the last of `ends`. `largest [R, W]`
    receives the row of each maximum, or -1 if no entry is above 0. `maxima [W]` is scratch memory.
    """
    width = x.shape[1]
    start = 0
    for row in range(len(ends)):
        for w in range(width):
            out[row, w], maxima[w], largest[row, w] = ZERO, ZERO, -1
        for member in range(start, ends[row]):
            # Each loop writes arrays of one type only, because LLVM vectorises only such loops.
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
    """Backward pass of `pool_all`: compute `out [F, W]` from `grad [R, 2 * W]`."""
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
    """Round `count` up by at most an eighth, to one of eight values per power of two; at most `limit`.

    Rounding limits the number of shapes, because oneDNN generates code for every new shape. With unrounded row counts,
    generating code took a third of a learning step (64 against 42 ms for 2,560 decisions of a mech).
    """
    step = max(2 ** (count.bit_length() - 4), 1)
    return min(-(-count // step) * step, limit)


def valid_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the flat indices of the True entries of `mask [R, C]`, `[F]` int64, and where each set ends among them,
    `[R]` int64.

    The first index is repeated to fill up to `padded_count` entries.
    """
    ends = torch.empty(mask.shape[0], dtype=torch.int64, device="cpu")
    index = torch.empty(mask.numel(), dtype=torch.int64, device="cpu")
    list_valid_rows(mask.numpy(), ends.numpy(), index.numpy())
    count = int(ends.numpy()[-1])
    padded = padded_count(count, mask.numel())
    index[count:padded] = index[:1]
    return index[:padded], ends


class PackedPool(torch.autograd.Function):
    """`MaskedPool` on packed members."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Tensor) -> Tensor:
        """Return mean and maximum of each set, `[R, 2 * W]` float32, from `x [F, W]`, float32 or bfloat16, and `ends
        [R]`.
        """
        out = x.new_empty((len(ends), 2 * x.shape[1]), dtype=torch.float32)
        largest = torch.empty((len(ends), x.shape[1]), dtype=torch.int32, device="cpu")
        maxima = np.empty(x.shape[1], np.float32)
        pool_all(array(x), x.dtype == torch.bfloat16, array(ends), maxima, array(out), array(largest))
        ctx.save_for_backward(x, ends, largest)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Route the mean's gradient to all entries above 0, and the maximum's gradient to the largest entry."""
        x, ends, largest = ctx.saved_tensors
        out, arrays = torch.empty_like(x), [array(values) for values in (ends, largest)]
        unpool_all(array(grad.contiguous()), array(x), x.dtype == torch.bfloat16, *arrays, array(out))
        return out, None
