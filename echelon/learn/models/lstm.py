"""The model `lstm`: LSTM over decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.data import Composite, Unbounded

from echelon.learn.loops.arithmetic import product_dtype, uses_loops
from echelon.learn.loops.lstm import LSTMSequence
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder, new_layer, orthogonal
from echelon.learn.models.memory import Memory, MemoryState
from echelon.learn.models.registry import ModelConfig, PolicySpecs

FORGET_BIAS = 1.0
"""Initial bias of the forget gate (Jozefowicz et al. 2015)."""


def tanh(x: Tensor) -> Tensor:
    """Compute tanh as 2 sigmoid(2x) - 1: nine times as fast on a CPU; error at most 1.2e-7."""
    return torch.sigmoid(2 * x) * 2 - 1


def gate_activations(gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the activations of input gate, forget gate, cell candidate and output gate, `[..., hidden]` float32 each.

    Args:
        gates: pre-activations of the gates, `[..., 4 * hidden]`.
    """
    i, f, g, o = gates.float().chunk(4, -1)
    return i.sigmoid(), f.sigmoid(), tanh(g), o.sigmoid()


def advance(gates: Tensor, before_c: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute one step; return the output `h [R, hidden]`, and the state for the next step (h in the dtype of the
    gates, and c).

    Args:
        gates: pre-activations of the gates, `[R, 4 * hidden]`.
        before_c: the cell state c before the step, `[R, hidden]`.
        keep: 0 if a battle starts with the next step and the state is reset, else 1; `[R, 1]`.
    """
    i, f, g, o = gate_activations(gates)
    c = torch.addcmul(f * before_c, i, g)
    h = o * tanh(c)
    return h, (h * keep).to(gates.dtype), c * keep


def retreat(
    gates: Tensor, before_c: Tensor, keep: Tensor, grad: Tensor, to_h: Tensor, to_c: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `advance` with respect to `gates [R, 4 * hidden]` and `before_c [R, hidden]`.

    Args:
        gates, before_c, keep: arguments of `advance`.
        grad: gradient with respect to the output h, `[R, hidden]`.
        to_h, to_c: gradients with respect to the state for the next step, `[R, hidden]` each.
    """
    i, f, g, o = gate_activations(gates)
    squashed = tanh(torch.addcmul(f * before_c, i, g))
    at_h = grad + to_h * keep
    through_o = at_h * o
    at_c = to_c * keep + through_o - through_o * squashed * squashed
    to_i, to_f = at_c * i, at_c * f
    slopes = (to_i * g * (1 - i), to_f * before_c * (1 - f), to_i - to_i * g * g, through_o * squashed * (1 - o))
    return torch.cat(slopes, -1).to(gates.dtype), to_f


def unroll(from_input: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs h of all steps, `[T, R, hidden]`, h before each step, and the tensors that `unroll_back`
    requires.

    Args:
        from_input: input part of the gates' pre-activations, `[T, R, 4 * hidden]`.
        weight: recurrent weights in the same dtype, `[4 * hidden, hidden]`.
        h, c: state before the first step, `[R, hidden]` each.
        keep: 0 if a battle starts with the next step and the state is reset, else 1; `[T, R, 1]`.
    """
    before_h, before_c, outputs, entered, saved = h.to(from_input.dtype), c, [], [], []
    for from_input_t, keep_t in zip(from_input.unbind(0), keep.unbind(0), strict=True):
        entered.append(before_h)
        gates = torch.addmm(from_input_t, before_h, weight.t())
        saved += [gates, before_c]
        out, before_h, before_c = advance(gates, before_c, keep_t)
        outputs.append(out)
    return torch.stack(outputs), torch.stack(entered), *saved


def unroll_back(saved: Sequence[Tensor], weight: Tensor, keep: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient with respect to the pre-activations of `unroll`, `[T, R, 4 * hidden]`.

    Args:
        saved: tensors saved by `unroll`: pre-activations, and c before each step.
        weight, keep: arguments of `unroll`.
        grad: gradient with respect to the outputs, `[T, R, hidden]`.
    """
    to_h, to_c, to_gates = torch.zeros_like(grad[0], dtype=saved[0].dtype), torch.zeros_like(saved[1]), []
    for t in range(len(grad) - 1, -1, -1):
        slopes, to_c = retreat(saved[2 * t], saved[2 * t + 1], keep[t], grad[t], to_h, to_c)
        to_h = slopes @ weight
        to_gates.append(slopes)
    return torch.stack(to_gates[::-1])


class LSTMUnroll(torch.autograd.Function):
    """LSTM over a sequence, with a hand-written backward pass.

    Autograd would add up a weight gradient per step and store every activation. In this class the weight gradient is
    one matrix product over all steps, and activations are recomputed.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """Return the outputs h of all steps, `[T, R, hidden]`.

        Args:
            gates: input part of the gates' pre-activations, `[T, R, 4 * hidden]`.
            weight: recurrent weights, `[4 * hidden, hidden]`.
            h, c: initial state, `[R, hidden]` each.
            keep: 0 where a battle starts and the state is reset, else 1; `[T, R, 1]`.
        """
        recurrent = weight.to(gates.dtype)
        following = torch.cat((keep[1:], torch.ones_like(keep[:1])))
        out, *saved = unroll(gates, recurrent, h * keep[0], c * keep[0], following)
        ctx.weight_dtype = weight.dtype
        ctx.save_for_backward(recurrent, following, *saved)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Backpropagate through time; the initial state and `keep` get no gradient."""
        weight, keep, before_h, *saved = ctx.saved_tensors
        to_gates = unroll_back(saved, weight, keep, grad.contiguous())
        to_weight = to_gates.flatten(0, 1).t() @ before_h.flatten(0, 1)
        return to_gates, to_weight.to(ctx.weight_dtype), None, None, None


class LSTM(Memory):
    """Long short-term memory (Hochreiter & Schmidhuber 1997) with one state per mech and shared weights.

    TorchRL's `LSTMModule` splits sequences at resets on the host. This class multiplies the state by a mask instead,
    and reads the stored state only at the first decision of a sequence. State and gate activations are float32, also
    under autocast. Initialisation: orthogonal input weights, orthogonal recurrent weights per gate, forget bias
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
        """Spec of the state of one mech, `h` and `c`, `[hidden]` each."""
        return Composite(h=Unbounded((self.hidden,), **new_layer()), c=Unbounded((self.hidden,), **new_layer()))

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """Compute one step; the embedding is the new state `h`."""
        gates, weight = self.from_input(features), self.from_hidden.weight
        i, f, g, o = gate_activations(gates + F.linear(state["h"].to(gates.dtype), weight.to(gates.dtype)))
        c = torch.addcmul(f * state["c"], i, g)
        h = o * tanh(c)
        return h, {"h": h, "c": c}

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """Like `Memory.unroll`, with a hand-written backward pass."""
        if uses_loops(features, state["c"], keep):
            features = features.to(product_dtype(features))
            weight = torch.cat((self.from_input.weight, self.from_hidden.weight), 1)
            return LSTMSequence.apply(features, weight, self.from_input.bias, state["h"], state["c"], keep)
        return LSTMUnroll.apply(self.from_input(features), self.from_hidden.weight, state["h"], state["c"], keep)


@dataclass(frozen=True)
class LSTMConfig(ModelConfig):
    """LSTM with `hidden` units."""

    def build(self, specs: PolicySpecs) -> ActorCritic:
        """Build the policy with random weights."""
        return ActorCritic(self, specs, Encoder(self, specs), LSTM(self.hidden, self.hidden))
