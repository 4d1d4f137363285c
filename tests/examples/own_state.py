"""A network that reads a mech's own state alone: `--model own_state:Config`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.mlp import Feedforward
from echelon.learn.models.registry import ModelConfig, PolicySpecs


class OwnState(nn.Module):
    """One layer over the stream `ego`."""

    streams = ("ego",)

    def __init__(self, model: ModelConfig, specs: PolicySpecs) -> None:
        super().__init__()
        self.layer = nn.Linear(specs.columns.width("ego"), model.hidden)

    def forward(self, ego: torch.Tensor, telemetry: torch.Tensor) -> torch.Tensor:
        return self.layer(ego).relu()


@dataclass(frozen=True)
class Config(ModelConfig):
    """Settings of the network; `hidden` is inherited."""

    def build(self, specs: PolicySpecs) -> ActorCritic:
        return ActorCritic(self, specs, OwnState(self, specs), Feedforward(self.hidden, self.hidden))
