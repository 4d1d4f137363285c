"""The recurrent policy of a mech: encoder, LSTM, actor, critic. All mechs of a team share its weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint
from torchrl.data import Composite, Unbounded
from torchrl.envs.utils import ExplorationType, exploration_type

from echelon.env.observation import layout
from echelon.learn.config import ModelConfig
from echelon.learn.models.distribution import SquashedNormal
from echelon.learn.models.encoder import Encoder
from echelon.learn.models.heads import ActorHead, Critic
from echelon.learn.models.lstm import LSTM
from echelon.learn.models.mlp import Feedforward
from echelon.learn.models.precision import autocast

PolicyOutput = tuple[Tensor, Tensor, Tensor, Tensor]
"""`loc`, `scale` and the next LSTM state `h`, `c`; `h` is also the embedding that the critic reads."""


class ActorNetwork(nn.Module):
    """Maps observations and LSTM state to the parameters of the action distribution."""

    def __init__(self, model: ModelConfig, comm_dim: int) -> None:
        super().__init__()
        self.encoder = Encoder(model, comm_dim)
        self.memory: LSTM | Feedforward = (LSTM if model.recurrent else Feedforward)(model.hidden, model.hidden)
        self.head = ActorHead(model, layout.action_width(comm_dim))
        self.compute = torch.float32
        """Dtype of matrix products, see `echelon.learn.models.precision`; LSTM state and heads stay float32."""

    def forward(self, streams: tuple[Tensor, ...], telemetry: Tensor, h: Tensor, c: Tensor) -> PolicyOutput:
        """One decision.

        Args:
            streams: `[B, A, *]` each, in the order of `layout.STREAMS`.
            telemetry: `[B, 16, 16]` top-down map of each battle.
            h, c: `[B, A, hidden]` LSTM state.

        Returns:
            `loc` and `scale` `[B, A, D]`, new `h` and `c` `[B, A, hidden]`.
        """
        with autocast(self.compute, h.device):
            h, c = self.memory.step(self.encoder(*streams, telemetry), h, c)
        loc, scale = self.head(h)
        return loc, scale, h, c

    def unroll(
        self, streams: tuple[Tensor, ...], telemetry: Tensor, h: Tensor, c: Tensor, keep: Tensor, saves_memory: bool
    ) -> Tensor:
        """`[T, S, A, hidden]` embeddings of whole sequences: streams `[T, S, A, *]`, `telemetry [T, S, 16, 16]`.

        Args:
            h, c: `[S, A, hidden]` the stored state before the first decision.
            keep: `[T, S]` 0 at the first decision of a battle, where the state is reset, else 1.
            saves_memory: recompute the encoder in the backward pass (activation checkpointing).
        """
        with autocast(self.compute, h.device):
            if saves_memory:
                features = checkpoint(self.encoder, *streams, telemetry, use_reentrant=False)
            else:
                features = self.encoder(*streams, telemetry)
            keep_rows = keep[..., None].expand(*features.shape[:3]).flatten(1)[..., None]
            embed = self.memory(features.flatten(1, 2), h.flatten(0, 1), c.flatten(0, 1), keep_rows)
        return embed.view(*features.shape[:3], -1)


def batched_forward(base: ActorNetwork, weights: dict[str, Tensor], *inputs: object) -> PolicyOutput:
    """Forward pass of n networks of `base`'s architecture with `torch.vmap`.

    Args:
        weights: stacked parameters, `[n, ...]` each, named as in `base.state_dict()`.
        inputs: arguments of `ActorNetwork.forward`, `[n, ...]` each.
    """

    def single(own_weights: dict[str, Tensor], *own_inputs: object) -> PolicyOutput:
        output: PolicyOutput = functional_call(base, own_weights, own_inputs)
        return output

    outputs: PolicyOutput = torch.vmap(single)(weights, *inputs)
    return outputs


class ActorCritic(TensorDictModuleBase):
    """A team policy (see `echelon.env.group_policy`), the same weights for every mech.

    Reads `("observation", stream)`, `telemetry` and `("memory", h | c)`; writes `action` in [-1, 1], `pre_tanh`,
    `log_prob` (of `pre_tanh`), `embed` and `("next", "memory", h | c)`. It samples its actions with the standard normal
    numbers `noise [B, A, D]` where the input has them, else from torch's generator unless called within
    `set_exploration_type(ExplorationType.DETERMINISTIC)`.

    Args:
        model: sizes of the network.
        comm_dim: numbers in a message, as in `EnvConfig.comm_dim`.
    """

    draws_actions = True

    def __init__(self, model: ModelConfig, comm_dim: int) -> None:
        super().__init__()
        self.model = model
        self.comm_dim = comm_dim
        self.network = ActorNetwork(model, comm_dim)
        self.critic = Critic(model)
        self.act: Callable[..., PolicyOutput] = self.network.forward
        """Forward pass for one decision; the trainer may replace it with a compiled one."""
        memory = [("memory", name) for name in self.memory_spec().keys()]
        self.in_keys = [*(("observation", name) for name in layout.STREAMS), "telemetry", *memory]
        self.out_keys = ["action", *(("next", *key) for key in memory)]

    def memory_spec(self) -> Composite:
        """LSTM state `h`, `c` of one mech, `[hidden]` each; empty without an LSTM."""
        if not self.model.recurrent:
            return Composite()
        return Composite(h=Unbounded((self.model.hidden,)), c=Unbounded((self.model.hidden,)))

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for every mech of a team, batch `[..., A]` with any batch dimensions before A."""
        h, c = self.state(team)
        streams = tuple(team.get(("observation", name)) for name in layout.STREAMS)
        loc, scale, h, c = self.act(streams, team.get("telemetry")[..., 0, :, :], h, c)
        distribution = SquashedNormal(loc, scale)
        pre_tanh = self._sample(distribution, team.get("noise", None))
        team.set("pre_tanh", pre_tanh).set("action", pre_tanh.tanh()).set("embed", h)
        team.set("log_prob", distribution.pre_tanh_log_prob(pre_tanh))
        if self.model.recurrent:
            team.set(("next", "memory", "h"), h).set(("next", "memory", "c"), c)
        return team

    @staticmethod
    def _sample(distribution: SquashedNormal, noise: Tensor | None) -> Tensor:
        """`[B, A, D]` pre-tanh actions, drawn with the standard normal `noise` where there is one."""
        if noise is not None:
            return (distribution.base_dist.loc + distribution.base_dist.scale * noise).detach()
        if exploration_type() == ExplorationType.DETERMINISTIC:
            return distribution.deterministic_sample
        return distribution.rsample().detach()

    def state(self, team: TensorDictBase) -> tuple[Tensor, Tensor]:
        """LSTM state `h`, `c` of a team, `[B, A, hidden]` each; zeros without an LSTM."""
        if self.model.recurrent:
            return team.get(("memory", "h")), team.get(("memory", "c"))
        zeros = team.get(("observation", "ego")).new_zeros(*team.shape, self.model.hidden)
        return zeros, zeros

    def num_parameters(self) -> int:
        """Number of learnable parameters."""
        return sum(p.numel() for p in self.parameters())
