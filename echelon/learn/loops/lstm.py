"""An LSTM over a sequence and its gradient: of each step a matrix product, and one loop over the units. Both loops
compute the activations from what enters the gates, which takes less time than fetching them from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, TWO, array, compiled, exponential, halved, widened


@compiled
def _advance(t: int, gates: Any, keep: Any, is_half: bool, before_h: Any, before_c: Any, out: Any) -> None:
    width = out.shape[2]
    for row in range(out.shape[1]):
        mask = keep[t, row, 0]
        for j in range(width):
            # A gate is 1 / (1 + e^-x), the candidate (1 - e^-2x) / (1 + e^-2x); two of them share a division.
            to_i = ONE + exponential(-widened(gates[t, row, j], is_half))
            to_f = ONE + exponential(-widened(gates[t, row, width + j], is_half))
            to_g = exponential(-TWO * widened(gates[t, row, 2 * width + j], is_half))
            to_o = ONE + exponential(-widened(gates[t, row, 3 * width + j], is_half))
            c = before_c[t, row, j] / to_f + (ONE - to_g) / (to_i * (ONE + to_g))
            to_tanh = exponential(-TWO * c)
            h = (ONE - to_tanh) / (to_o * (ONE + to_tanh))
            out[t, row, j] = h
            before_c[t + 1, row, j] = c * mask
            if is_half:
                before_h[t + 1, row, j] = halved(h * mask)
            else:
                before_h[t + 1, row, j] = h * mask


def unroll(from_input: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
    """`lstm.unroll` of contiguous tensors; what it saves is the gates of all steps, and c before each of them."""
    steps, rows, width = *from_input.shape[:2], c.shape[1]
    out, gates = c.new_empty(steps, rows, width), torch.empty_like(from_input)
    before_h, before_c = from_input.new_empty(steps + 1, rows, width), c.new_empty(steps + 1, rows, width)
    before_h[0], before_c[0] = h, c
    read, is_half = (array(gates), array(keep)), gates.dtype == torch.bfloat16
    written = [array(values) for values in (before_h, before_c, out)]
    for t in range(steps):
        torch.addmm(from_input[t], before_h[t], weight.t(), out=gates[t])
        _advance(t, *read, is_half, *written)
    return out, before_h[:-1], gates, before_c


@compiled
def _retreat(
    t: int,
    gates: Any,
    before_c: Any,
    keep: Any,
    grad: Any,
    is_half: bool,
    to_h: Any,
    to_c: Any,
    slopes: Any,
    to_gates: Any,
) -> None:
    width = before_c.shape[2]
    slopes_i, slopes_f, slopes_g, slopes_o = slopes[0], slopes[1], slopes[2], slopes[3]
    for row in range(before_c.shape[1]):
        mask = keep[t, row, 0]
        for j in range(width):
            to_i = ONE + exponential(-widened(gates[t, row, j], is_half))
            to_f = ONE + exponential(-widened(gates[t, row, width + j], is_half))
            to_g = exponential(-TWO * widened(gates[t, row, 2 * width + j], is_half))
            to_o = ONE + exponential(-widened(gates[t, row, 3 * width + j], is_half))
            shared = ONE / (to_i * to_f)
            i, f = shared * to_f, shared * to_i
            shared = ONE / (to_o * (ONE + to_g))
            g, o = (ONE - to_g) * shared * to_o, shared * (ONE + to_g)
            to_tanh = exponential(-TWO * (f * before_c[t, row, j] + i * g))
            squashed = (ONE - to_tanh) / (ONE + to_tanh)
            at_h = grad[t, row, j] + widened(to_h[row, j], is_half) * mask
            at_c = to_c[row, j] * mask + at_h * o * (ONE - squashed * squashed)
            to_c[row, j] = at_c * f
            slopes_i[j], slopes_f[j] = at_c * g * i * (ONE - i), at_c * before_c[t, row, j] * f * (ONE - f)
            slopes_g[j], slopes_o[j] = at_c * i * (ONE - g * g), at_h * squashed * o * (ONE - o)
        # Not in the same loop: LLVM could not tell that what one writes the others do not.
        for gate in range(4):
            for j in range(width):
                if is_half:
                    to_gates[t, row, gate * width + j] = halved(slopes[gate, j])
                else:
                    to_gates[t, row, gate * width + j] = slopes[gate, j]


def unroll_back(saved: Sequence[Tensor], weight: Tensor, keep: Tensor, grad: Tensor) -> Tensor:
    """`lstm.unroll_back` of contiguous tensors."""
    gates, before_c = saved
    to_gates, is_half = torch.empty_like(gates), gates.dtype == torch.bfloat16
    to_h, to_c = torch.zeros_like(grad[0], dtype=gates.dtype), torch.zeros_like(grad[0])
    read = [array(values) for values in (gates, before_c, keep, grad)]
    written = array(to_h), array(to_c), np.empty((4, grad.shape[2]), np.float32), array(to_gates)
    for t in range(len(grad) - 1, -1, -1):
        _retreat(t, *read, is_half, *written)
        torch.mm(to_gates[t], weight, out=to_h)
    return to_gates
