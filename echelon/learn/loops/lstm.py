"""A step of an LSTM and its gradient, each one loop over the units. Both compute the activations from what enters the
gates, which takes less time than fetching them from memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, TWO, array, compiled, exponential, halved, widened


@compiled
def _advance(gates: Any, before_c: Any, keep: Any, is_half: bool, h: Any, next_h: Any, next_c: Any) -> None:
    width = before_c.shape[1]
    for row in range(before_c.shape[0]):
        mask = keep[row, 0]
        for j in range(width):
            # A gate is 1 / (1 + e^-x), the candidate (1 - e^-2x) / (1 + e^-2x); two of them share a division.
            to_i = ONE + exponential(-widened(gates[row, j], is_half))
            to_f = ONE + exponential(-widened(gates[row, width + j], is_half))
            to_g = exponential(-TWO * widened(gates[row, 2 * width + j], is_half))
            to_o = ONE + exponential(-widened(gates[row, 3 * width + j], is_half))
            c = before_c[row, j] / to_f + (ONE - to_g) / (to_i * (ONE + to_g))
            to_tanh = exponential(-TWO * c)
            out = (ONE - to_tanh) / (to_o * (ONE + to_tanh))
            h[row, j] = out
            next_c[row, j] = c * mask
            if is_half:
                next_h[row, j] = halved(out * mask)
            else:
                next_h[row, j] = out * mask


def advance(gates: Tensor, before_c: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`lstm.advance` of contiguous tensors."""
    h, next_h, next_c = (torch.empty_like(before_c, dtype=dtype) for dtype in (None, gates.dtype, None))
    arrays, is_half = [array(values) for values in (gates, before_c, keep)], gates.dtype == torch.bfloat16
    _advance(*arrays, is_half, array(h), array(next_h), array(next_c))
    return h, next_h, next_c


@compiled
def _retreat(
    gates: Any,
    before_c: Any,
    keep: Any,
    grad: Any,
    to_h: Any,
    to_c: Any,
    is_half: bool,
    slopes_i: Any,
    slopes_f: Any,
    slopes_g: Any,
    slopes_o: Any,
    to_gates: Any,
    to_before: Any,
) -> None:
    width = before_c.shape[1]
    for row in range(before_c.shape[0]):
        mask = keep[row, 0]
        for j in range(width):
            to_i = ONE + exponential(-widened(gates[row, j], is_half))
            to_f = ONE + exponential(-widened(gates[row, width + j], is_half))
            to_g = exponential(-TWO * widened(gates[row, 2 * width + j], is_half))
            to_o = ONE + exponential(-widened(gates[row, 3 * width + j], is_half))
            shared = ONE / (to_i * to_f)
            i, f = shared * to_f, shared * to_i
            shared = ONE / (to_o * (ONE + to_g))
            g, o = (ONE - to_g) * shared * to_o, shared * (ONE + to_g)
            to_tanh = exponential(-TWO * (f * before_c[row, j] + i * g))
            squashed = (ONE - to_tanh) / (ONE + to_tanh)
            at_h = grad[row, j] + widened(to_h[row, j], is_half) * mask
            at_c = to_c[row, j] * mask + at_h * o * (ONE - squashed * squashed)
            to_before[row, j] = at_c * f
            slopes_i[j], slopes_f[j] = at_c * g * i * (ONE - i), at_c * before_c[row, j] * f * (ONE - f)
            slopes_g[j], slopes_o[j] = at_c * i * (ONE - g * g), at_h * squashed * o * (ONE - o)
        # Not in the same loop: LLVM could not tell that what one writes the others do not.
        for gate, slopes in enumerate((slopes_i, slopes_f, slopes_g, slopes_o)):
            for j in range(width):
                if is_half:
                    to_gates[row, gate * width + j] = halved(slopes[j])
                else:
                    to_gates[row, gate * width + j] = slopes[j]


def retreat(
    gates: Tensor, before_c: Tensor, keep: Tensor, grad: Tensor, to_h: Tensor, to_c: Tensor
) -> tuple[Tensor, Tensor]:
    """`lstm.retreat` of contiguous tensors."""
    to_gates, to_before = torch.empty_like(gates), torch.empty_like(before_c)
    arrays, row = (
        (array(x) for x in (gates, before_c, keep, grad, to_h, to_c)),
        np.empty((4, len(before_c[0])), np.float32),
    )
    _retreat(*arrays, gates.dtype == torch.bfloat16, *row, array(to_gates), array(to_before))
    return to_gates, to_before
