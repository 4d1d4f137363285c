"""LSTM over a sequence and its gradient: each step is one matrix product and one loop over the units.

The loops of the forward and of the backward pass both compute the activations from the gate inputs, which is faster
than reading stored activations. Input and state are adjacent in memory, so one matrix product computes the gates from
both, and another product computes the gradients of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, TWO, array, compiled, exponential, halved, widened


@compiled
def _advance(t: int, gates: Any, bias: Any, keep: Any, is_half: bool, entered: Any, before_c: Any, out: Any) -> None:
    width = out.shape[2]
    first = max(entered.shape[2] - width, 0)
    for row in range(out.shape[1]):
        for k in range(len(bias)):
            if is_half:
                gates[t, row, k] = halved(widened(gates[t, row, k], is_half) + bias[k])
            else:
                gates[t, row, k] += bias[k]
        mask = keep[t, row, 0]
        for j in range(width):
            # A gate is 1 / (1 + e^-x), the candidate (1 - e^-2x) / (1 + e^-2x). Their product needs only one division.
            to_i = ONE + exponential(-widened(gates[t, row, j], is_half))
            to_f = ONE + exponential(-widened(gates[t, row, width + j], is_half))
            to_g = exponential(-TWO * widened(gates[t, row, 2 * width + j], is_half))
            to_o = ONE + exponential(-widened(gates[t, row, 3 * width + j], is_half))
            c = before_c[t, row, j] / to_f + (ONE - to_g) / (to_i * (ONE + to_g))
            to_tanh = exponential(-TWO * c)
            h = (ONE - to_tanh) / (to_o * (ONE + to_tanh))
            out[t, row, j] = h
            before_c[t + 1, row, j] = c * mask
        # Write this array in a separate loop, because LLVM could not prove that the arrays do not overlap.
        for j in range(width):
            if is_half:
                entered[t + 1, row, first + j] = halved(out[t, row, j] * mask)
            else:
                entered[t + 1, row, first + j] = out[t, row, j] * mask


@compiled
def _retreat(
    t: int,
    gates: Any,
    before_c: Any,
    keep: Any,
    grad: Any,
    is_half: bool,
    to_entered: Any,
    to_c: Any,
    slopes: Any,
    to_gates: Any,
) -> None:
    width = before_c.shape[2]
    first = max(to_entered.shape[2] - width, 0)
    slopes_i, slopes_f, slopes_g, slopes_o, to_h = slopes[0], slopes[1], slopes[2], slopes[3], slopes[4]
    for row in range(before_c.shape[1]):
        mask = keep[t, row, 0]
        for j in range(width):
            to_h[j] = grad[t, row, j] + widened(to_entered[t + 1, row, first + j], is_half) * mask
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
            at_c = to_c[row, j] * mask + to_h[j] * o * (ONE - squashed * squashed)
            to_c[row, j] = at_c * f
            slopes_i[j], slopes_f[j] = at_c * g * i * (ONE - i), at_c * before_c[t, row, j] * f * (ONE - f)
            slopes_g[j], slopes_o[j] = at_c * i * (ONE - g * g), to_h[j] * squashed * o * (ONE - o)
        for gate in range(4):
            for j in range(width):
                if is_half:
                    to_gates[t, row, gate * width + j] = halved(slopes[gate, j])
                else:
                    to_gates[t, row, gate * width + j] = slopes[gate, j]


class LSTMSequence(torch.autograd.Function):
    """`LSTM.unroll` on a CPU."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, *state: Tensor) -> Tensor:
        """Return `[T, R, hidden]`, the output h of every step.

        Args:
            features: inputs `[T, R, F]`, float32 or bfloat16, which is also the dtype of the matrix products.
            weight: weights of the gates for input and state, `[4 * hidden, F + hidden]`.
            bias: bias of the gates, `[4 * hidden]`.
            state: h and c before the first step, `[R, hidden]` each, and `keep [T, R, 1]`, which is 0 where a battle
                starts and the state is reset, else 1.
        """
        h, c, keep = state
        steps, rows, width_in = features.shape
        joined, width = weight.detach().to(features.dtype), c.shape[1]
        following = torch.cat((keep[1:], torch.ones_like(keep[:1])))
        entered = features.new_empty(steps + 1, rows, width_in + width)
        before_c, out = c.new_empty(steps + 1, rows, width), c.new_empty(steps, rows, width)
        gates, is_half = features.new_empty(steps, rows, 4 * width), features.dtype == torch.bfloat16
        entered[:-1, :, :width_in] = features.detach()
        entered[0, :, width_in:], before_c[0] = h * keep[0], c * keep[0]
        read = array(gates), array(bias), array(following)
        written, transposed = [array(values) for values in (entered, before_c, out)], joined.t()
        for t, (inputs, to_gates) in enumerate(zip(entered.unbind(), gates.unbind(), strict=False)):
            torch.mm(inputs, transposed, out=to_gates)
            _advance(t, *read, is_half, *written)
        ctx.save_for_backward(joined, following, entered, gates, before_c)
        ctx.weight_dtype = weight.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Backpropagate through time; the initial state and `keep` get no gradient."""
        weight, keep, entered, gates, before_c = ctx.saved_tensors
        width, is_half = before_c.shape[2], gates.dtype == torch.bfloat16
        to_entered, to_gates, to_c = torch.empty_like(entered), torch.empty_like(gates), torch.zeros_like(before_c[0])
        to_entered[-1].zero_()
        read = [array(values) for values in (gates, before_c, keep, grad.contiguous())]
        written = array(to_entered), array(to_c), np.empty((5, width), np.float32), array(to_gates)
        for t in range(len(gates) - 1, -1, -1):
            _retreat(t, *read, is_half, *written)
            torch.mm(to_gates[t], weight, out=to_entered[t])
        slopes = to_gates.flatten(0, 1)
        to_weight = (slopes.t() @ entered[:-1].flatten(0, 1)).to(ctx.weight_dtype)
        to_bias = slopes.sum(0, dtype=torch.float32)
        return to_entered[:-1, :, :-width], to_weight, to_bias, None, None, None
