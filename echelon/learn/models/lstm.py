"""The model `lstm`: LSTM over decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.data import Composite, Unbounded

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder, new_layer, orthogonal
from echelon.learn.models.memory import Memory, MemoryState
from echelon.learn.models.registry import ModelConfig, PolicySpecs

FORGET_BIAS = 1.0
"""Initial bias of the forget gate (Jozefowicz et al. 2015)."""


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent as 2 sigmoid(2x) - 1: nine times as fast on a CPU; error at most 1.2e-7."""
    return torch.sigmoid(2 * x) * 2 - 1


def gate_activations(gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Activations of input gate, forget gate, cell candidate and output gate, `[..., hidden]` float32 each.

    Args:
        gates: `[..., 4 * hidden]` pre-activations.
    """
    i, f, g, o = gates.float().chunk(4, -1)
    return i.sigmoid(), f.sigmoid(), tanh(g), o.sigmoid()


class LSTMUnroll(torch.autograd.Function):
    """LSTM over a sequence, with a hand-written backward pass.

    Autograd would compute and add up a weight gradient per step; here it is one matrix product over all steps (16 steps
    of 80 mechs, width 128, bf16, one core: 4.4 us a step forward and backward, against 6.3 with autograd).
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """`[T, R, hidden]` outputs h of every step.

        Args:
            gates: `[T, R, 4 * hidden]` input part of the gate pre-activations.
            weight: `[4 * hidden, hidden]` recurrent weights.
            h, c: `[R, hidden]` initial state.
            keep: `[T, R, 1]` 0 where a battle begins and the state is reset, else 1.
        """
        weight_there = weight.to(gates.dtype)
        outputs, previous_h, saved = [], [], []
        for gates_t, keep_t in zip(gates.unbind(0), keep.unbind(0), strict=True):
            before_h, before_c = (h * keep_t).to(gates.dtype), c * keep_t
            i, f, g, o = gate_activations(torch.addmm(gates_t, before_h, weight_there.t()))
            c = torch.addcmul(f * before_c, i, g)
            squashed = tanh(c)
            h = o * squashed
            outputs.append(h)
            previous_h.append(before_h)
            saved += [i, f, g, o, before_c, squashed]
        ctx.weight_dtype = weight.dtype
        ctx.save_for_backward(weight_there, keep, torch.stack(previous_h), *saved)
        return torch.stack(outputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Backpropagation through time; no gradient for the initial state and `keep`."""
        weight, keep, before_h, *saved = ctx.saved_tensors
        to_gates = grad.new_empty((*grad.shape[:2], 4, grad.shape[2]), dtype=weight.dtype)
        to_h = to_c = torch.zeros_like(grad[0])
        for t in range(grad.shape[0] - 1, -1, -1):
            i, f, g, o, before_c, squashed = saved[6 * t : 6 * t + 6]
            at_h = grad[t] + to_h
            through_o = at_h * o
            at_c = to_c + through_o - through_o * squashed * squashed
            to_i, to_f = at_c * i, at_c * f
            slopes = to_gates[t]
            slopes[:, 0] = to_i * g * (1 - i)
            slopes[:, 1] = to_f * before_c * (1 - f)
            slopes[:, 2] = to_i - to_i * g * g
            slopes[:, 3] = through_o * squashed * (1 - o)
            to_h = (slopes.flatten(1) @ weight) * keep[t]
            to_c = to_f * keep[t]
        flat = to_gates.flatten(2)
        to_weight = flat.flatten(0, 1).t() @ before_h.flatten(0, 1)
        return flat, to_weight.to(ctx.weight_dtype), None, None, None


class LSTM(Memory):
    """Long short-term memory (Hochreiter & Schmidhuber 1997) with one state per mech and shared weights.

    TorchRL's `LSTMModule` splits sequences at resets on the host; this one multiplies the state by a mask instead, and
    reads the stored state only at the first decision of a sequence. State and gate activations are float32 under
    autocast too. Initialisation: orthogonal input weights, orthogonal recurrent weights per gate, forget bias
    `FORGET_BIAS`.
    """

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__(hidden)
        self.from_input = orthogonal(nn.Linear(width_in, 4 * hidden, **new_layer()), gain=1.0)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False, **new_layer())
        for gate in self.from_hidden.weight.data.split(hidden):
            nn.init.orthogonal_(gate)
        self.from_input.bias.data[hidden : 2 * hidden] = FORGET_BIAS

    def spec(self) -> Composite:
        """`h` and `c`, `[hidden]` each."""
        return Composite(h=Unbounded((self.hidden,), **new_layer()), c=Unbounded((self.hidden,), **new_layer()))

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """One step: the embedding is the new `h`."""
        gates, weight = self.from_input(features), self.from_hidden.weight
        i, f, g, o = gate_activations(gates + F.linear(state["h"].to(gates.dtype), weight.to(gates.dtype)))
        c = torch.addcmul(f * state["c"], i, g)
        h = o * tanh(c)
        return h, {"h": h, "c": c}

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """As in `Memory`, with a hand-written backward pass."""
        return LSTMUnroll.apply(self.from_input(features), self.from_hidden.weight, state["h"], state["c"], keep)


@dataclass(frozen=True)
class LSTMConfig(ModelConfig):
    """Long short-term memory of `hidden` units."""

    def build(self, specs: PolicySpecs) -> ActorCritic:
        """The policy with random weights."""
        return ActorCritic(self, specs, Encoder(self, specs.comm_dim), LSTM(self.hidden, self.hidden))
