"""The model `gru`: a gated recurrent unit over decisions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.data import Composite, Unbounded

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder, new_layer, orthogonal
from echelon.learn.models.memory import Memory, MemoryState, masked_state
from echelon.learn.models.registry import ModelConfig, PolicySpecs


class GRU(Memory):
    """Gated recurrent units (Cho et al. 2014) with one state per mech and shared weights.

    State and gate activations are float32 under autocast too. Initialisation: orthogonal input weights, orthogonal
    recurrent weights per gate. Gates are in the order of `nn.GRUCell`: reset, update, candidate.
    """

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__(hidden)
        self.from_input = orthogonal(nn.Linear(width_in, 3 * hidden, **new_layer()), gain=1.0)
        self.from_hidden = nn.Linear(hidden, 3 * hidden, **new_layer())
        nn.init.zeros_(self.from_hidden.bias)
        for gate in self.from_hidden.weight.data.split(hidden):
            nn.init.orthogonal_(gate)

    def spec(self) -> Composite:
        """`h [hidden]`."""
        return Composite(h=Unbounded((self.hidden,), **new_layer()))

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """Compute one step; the embedding is the new state `h`."""
        h = self._next(self.from_input(features), state["h"])
        return h, {"h": h}

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """Like `Memory.unroll`, with one matrix product for the inputs of all steps."""
        outputs = []
        for gates_t, keep_t in zip(self.from_input(features).unbind(0), keep.unbind(0), strict=True):
            state = {"h": self._next(gates_t, masked_state(state, keep_t)["h"])}
            outputs.append(state["h"])
        return torch.stack(outputs)

    def _next(self, gates: Tensor, h: Tensor) -> Tensor:
        """Return the next state `[..., hidden]` from the input part of the gates, `gates [..., 3 * hidden]`, and the
        state `h`.
        """
        weight, bias = self.from_hidden.weight.to(gates.dtype), self.from_hidden.bias.to(gates.dtype)
        recurrent = F.linear(h.to(gates.dtype), weight, bias)
        reset_in, update_in, candidate_in = gates.float().chunk(3, -1)
        reset_h, update_h, candidate_h = recurrent.float().chunk(3, -1)
        reset, update = (reset_in + reset_h).sigmoid(), (update_in + update_h).sigmoid()
        candidate = (candidate_in + reset * candidate_h).tanh()
        return candidate + update * (h - candidate)


@dataclass(frozen=True)
class GRUConfig(ModelConfig):
    """Gated recurrent unit of width `hidden`."""

    def build(self, specs: PolicySpecs) -> ActorCritic:
        """Build the policy with random weights."""
        return ActorCritic(self, specs, Encoder(self, specs), GRU(self.hidden, self.hidden))
