"""3x3 convolution of stride 2 with ReLU on a CPU, for maps of one channel that need no gradient.

The dense form multiplies with a matrix of mostly zeros, which takes thirteen times the arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ZERO, array, compiled


@compiled
def convolve(grid: Any, kernel: Any, bias: Any, out: Any) -> None:
    """Write ReLU of the convolution of `grid [R, cells, cells]` to `out [R, side², channels]`.

    The rows of the 3x3 kernel follow each other in `kernel [9, channels]`; `bias` is `[channels]`, and side is (cells -
    1) // 2.
    """
    side = (grid.shape[1] - 1) // 2
    for row in range(len(grid)):
        for line in range(side):
            y = 2 * line
            for column in range(side):
                x = 2 * column
                g0, g1, g2 = grid[row, y, x], grid[row, y, x + 1], grid[row, y, x + 2]
                g3, g4, g5 = grid[row, y + 1, x], grid[row, y + 1, x + 1], grid[row, y + 1, x + 2]
                g6, g7, g8 = grid[row, y + 2, x], grid[row, y + 2, x + 1], grid[row, y + 2, x + 2]
                # Sum in long expressions, so that partial sums stay in registers and are not stored.
                for c in range(out.shape[2]):
                    upper = bias[c] + g0 * kernel[0, c] + g1 * kernel[1, c] + g2 * kernel[2, c] + g3 * kernel[3, c]
                    lower = g4 * kernel[4, c] + g5 * kernel[5, c] + g6 * kernel[6, c] + g7 * kernel[7, c]
                    out[row, line * side + column, c] = max(upper + lower + g8 * kernel[8, c], ZERO)


@compiled
def convolve_back(grid: Any, out: Any, grad: Any, slope: Any, to_kernel: Any, to_bias: Any) -> None:
    """Add the gradients of `convolve` to `to_kernel [9, channels]` and `to_bias [channels]`.

    `grad` has the shape of the result `out`; `slope [channels]` is scratch memory.
    """
    side = (grid.shape[1] - 1) // 2
    for row in range(len(grid)):
        for line in range(side):
            for column in range(side):
                place = line * side + column
                for c in range(len(slope)):
                    slope[c] = grad[row, place, c] if out[row, place, c] > ZERO else ZERO
                for c in range(len(slope)):
                    to_bias[c] += slope[c]
                for dy in range(3):
                    for dx in range(3):
                        g = grid[row, 2 * line + dy, 2 * column + dx]
                        for c in range(len(slope)):
                            to_kernel[3 * dy + dx, c] += g * slope[c]


class Convolution(torch.autograd.Function):
    """ReLU of a 3x3 convolution of stride 2."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        """Return `[R, side², channels]` from `grid [R, cells, cells]`, `kernel [channels, 9]` and `bias
        [channels, 1]`.
        """
        grid, by_offset = grid.detach().float().contiguous(), kernel.detach().t().contiguous()
        side = (grid.shape[-1] - 1) // 2
        out = grid.new_empty(len(grid), side * side, len(kernel))
        convolve(array(grid), array(by_offset), array(bias.reshape(-1)), array(out))
        ctx.save_for_backward(grid, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        """Return the gradients with respect to kernel and bias."""
        grid, out = ctx.saved_tensors
        channels = out.shape[-1]
        to_kernel, to_bias = out.new_zeros(9, channels), out.new_zeros(channels)
        read = [array(values) for values in (grid, out, grad.float().contiguous())]
        convolve_back(*read, np.empty(channels, np.float32), array(to_kernel), array(to_bias))
        return None, to_kernel.t(), to_bias[:, None]
