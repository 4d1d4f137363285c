"""What a mech remembers: an LSTM over decisions, stepped while acting and unrolled while learning."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from echelon.learn.encoders import orthogonal

FORGET_BIAS = 1.0
"""The LSTM begins by remembering (Jozefowicz et al. 2015)."""


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent by the logistic function, which is nine times as fast on a CPU; off by at most 1.2e-7."""
    return torch.sigmoid(2 * x).mul(2).sub(1)


def cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New `h` and `c`, tanh(c), and the gates' openings `[..., 4, hidden]` (input, forget, new, output), in float32."""
    gates = gates.float().unflatten(-1, (4, -1))
    i, f, o = (gates.select(-2, gate).sigmoid() for gate in (0, 1, 3))
    g = tanh(gates.select(-2, 2))
    c = torch.addcmul(f * c, i, g)
    squashed = tanh(c)
    return o * squashed, c, squashed, torch.stack((i, f, g, o), -2)


def total(gates: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    """What the gates hear: the input's part and the memory's, in the dtype of the former."""
    return gates + F.linear(h.to(gates.dtype), weight.to(gates.dtype))


class Unroll(torch.autograd.Function):
    """The LSTM over a sequence, with its gradient written out.

    Autograd would multiply and add a weight gradient for every decision; here they come from one product over all
    (T = 16, 160 mechs, width 128, bf16, one core: forward and back 2.0 us a decision, autograd 3.4).
    """

    @staticmethod
    def forward(gates: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
        """`[T, R, hidden]` embeddings from `gates [T, R, 4 * hidden]`, the first state `[R, hidden]` and `keep [T, R,
        1]`, 0 where a battle begins. The rest is kept for the way back."""
        steps: list[tuple[Tensor, ...]] = []
        for gates_t, keep_t in zip(gates.unbind(0), keep.unbind(0), strict=True):
            before_h, before_c = h * keep_t, c * keep_t
            h, c, squashed, opened = cell(total(gates_t, before_h, weight), before_c)
            steps.append((h, before_h.to(gates.dtype), before_c, squashed, opened))
        return tuple(torch.stack(part) for part in zip(*steps, strict=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what the gradient needs."""
        gates, weight, _, _, keep = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.dtype = gates.dtype
        ctx.save_for_backward(weight, keep, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor, None, None, None]:
        """Back through time. The first state is data: nothing flows beyond it."""
        weight, keep, before_h, before_c, squashed, opened = ctx.saved_tensors
        weight_there = weight.to(ctx.dtype)
        i, f, g, o = opened.unbind(-2)
        # What a change of h does to c and to the output gate, and what a change of c does to the other gates.
        h_to_c = o * (1 - squashed * squashed)
        h_to_output = squashed * o * (1 - o)
        c_to_gates = torch.stack((g * i * (1 - i), before_c * f * (1 - f), i * (1 - g * g)), -2)
        c_to_c = f * keep
        to_gates = torch.empty_like(opened, dtype=ctx.dtype)
        to_h, to_c = torch.zeros_like(grad[0]), torch.zeros_like(grad[0])
        for t in range(grad.shape[0] - 1, -1, -1):
            at_h = grad[t] + to_h
            at_c = torch.addcmul(to_c, at_h, h_to_c[t])
            to_gates[t, :, :3] = c_to_gates[t] * at_c[:, None]
            to_gates[t, :, 3] = h_to_output[t] * at_h
            to_h = (to_gates[t].flatten(1) @ weight_there).to(at_h.dtype) * keep[t]
            to_c = at_c * c_to_c[t]
        to_gates = to_gates.flatten(2)
        to_weight = to_gates.flatten(0, 1).t() @ before_h.flatten(0, 1)
        return to_gates, to_weight.to(weight.dtype), None, None, None


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), one hidden state a mech, weights shared.

    TorchRL's `LSTMModule` splits sequences at resets on the host; this one multiplies the state by a mask instead,
    and reads the stored state at the first decision of a sequence only. State and openings of the gates are float32
    under autocast too. Input and memory weights are orthogonal a gate; the forget gate's bias begins at `FORGET_BIAS`.
    """

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = orthogonal(nn.Linear(width_in, 4 * hidden), gain=1.0)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)
        for gate in self.from_hidden.weight.data.split(hidden):
            nn.init.orthogonal_(gate)
        self.from_input.bias.data[hidden : 2 * hidden] = FORGET_BIAS

    def step(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One decision: new `h` and `c` from `features [..., width_in]` and the state `[..., hidden]`."""
        h, c, _, _ = cell(total(self.from_input(features), h, self.from_hidden.weight), c)
        return h, c

    def forward(self, features: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """A sequence in one call, equal to stepping it: `[T, R, hidden]` from `features [T, R, width_in]`.

        Args:
            h, c: `[R, hidden]` the stored state before the first decision.
            keep: `[T, R, 1]` 0 where a decision begins a battle, else 1.
        """
        return Unroll.apply(self.from_input(features), self.from_hidden.weight, h, c, keep)[0]
