"""Actor and critic heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from echelon.learn.models.encoder import BattlePooling, new_layer, orthogonal
from echelon.learn.models.precision import autocast
from echelon.learn.models.registry import ModelConfig

LOG_STD_RANGE = (-3.0, 0.5)
ACTION_GAIN = 0.01
"""Gain of the actor's last layer: initial actions are almost independent of the observation."""


class FixedStd(nn.Module):
    """State-independent log standard deviation, one learnable parameter per action column."""

    def __init__(self, width: int, initial_std: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((width,), math.log(initial_std), **new_layer()))

    def forward(self, embed: Tensor) -> Tensor:
        """`[..., D]` log standard deviation for `embed [..., hidden]`."""
        return self.bias.expand(*embed.shape[:-1], -1)


class ActorHead(nn.Module):
    """Mean and standard deviation of the pre-tanh actions; in evaluation mode the latter is scaled."""

    def __init__(self, model: ModelConfig, width: int) -> None:
        super().__init__()
        self.loc = orthogonal(nn.Linear(model.hidden, width, **new_layer()), ACTION_GAIN)
        self.log_std: nn.Module
        if model.std == "state":
            self.log_std = orthogonal(nn.Linear(model.hidden, width, **new_layer()), ACTION_GAIN)
            nn.init.constant_(self.log_std.bias, math.log(model.initial_std))
        else:
            self.log_std = FixedStd(width, model.initial_std)
        self.eval_std_scale = model.eval_std_scale

    def forward(self, embed: Tensor) -> tuple[Tensor, Tensor]:
        """`loc` and `scale` `[..., D]` from `embed [..., hidden]`."""
        scale = self.log_std(embed).clamp(*LOG_STD_RANGE).exp()
        return self.loc(embed), scale if self.training else scale * self.eval_std_scale


class Critic(nn.Module):
    """Value head, in normalised units (see `ValueNorm`); a central critic also reads the state of every mech."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.gathering = BattlePooling(model.body_width) if model.critic == "central" else None
        if self.gathering is not None:
            self.mix = orthogonal(nn.Linear(model.hidden + 4 * model.body_width, model.hidden, **new_layer()))
        self.value = orthogonal(nn.Linear(model.hidden, 1, **new_layer()), gain=1.0)

    def forward(self, embed: Tensor, own: Tensor, enemy: Tensor | None, compute: torch.dtype = torch.float32) -> Tensor:
        """`[..., A]` values.

        Args:
            embed: `[..., A, hidden]`.
            own: `[..., A, F]` ego streams of the team.
            enemy: `[..., E, F]` ego streams of the enemy team; read by a central critic only.
            compute: dtype of the products that encode ego streams, as in `ActorNetwork.compute`.
        """
        if self.gathering is not None:
            assert enemy is not None
            # Of both concatenated, the product with what is the same for all of a battle would be made once per mech.
            of_embed, of_battle = self.mix.weight.split((embed.shape[-1], self.mix.in_features - embed.shape[-1]), 1)
            with autocast(compute, embed.device):
                pooled = self.gathering(own.to(compute), enemy.to(compute)).float()
            battle = F.linear(pooled, of_battle, self.mix.bias)
            embed = F.relu(F.linear(embed, of_embed) + battle[..., None, :])
        return self.value(embed).squeeze(-1)
