"""The model `mlp`: a feed-forward layer instead of a recurrent one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.data import Composite

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder, new_layer, orthogonal
from echelon.learn.models.memory import Memory, MemoryState
from echelon.learn.models.registry import ModelConfig, PolicySpecs


class Feedforward(Memory):
    """Linear layer with ReLU and no recurrent state."""

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__(hidden)
        self.layer = orthogonal(nn.Linear(width_in, hidden, **new_layer()))

    def spec(self) -> Composite:
        """Empty spec."""
        return Composite()

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """Return the embedding `[..., hidden]` of `features [..., F]`."""
        return F.relu(self.layer(features)).float(), state

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """Return the embeddings `[T, R, hidden]` of `features [T, R, F]`; decisions are independent of each other."""
        return self.step(features, state)[0]


@dataclass(frozen=True)
class MLPConfig(ModelConfig):
    """A feed-forward layer of `hidden` units; a decision depends only on its observation."""

    def build(self, specs: PolicySpecs) -> ActorCritic:
        """Build the policy with random weights."""
        return ActorCritic(self, specs, Encoder(self, specs), Feedforward(self.hidden, self.hidden))
