"""A custom recurrent model with torch's GRU; its memory is named `x`, and the package needs no changes.

python pipelines/train.py --model gru:Config
python pipelines/arena.py play --blue runs/mine/checkpoints/iteration_000050 --red heuristic:easy --allow-module gru
"""

from dataclasses import dataclass

import torch
from torch import nn
from torchrl.data import Composite, Unbounded

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder
from echelon.learn.models.memory import Memory
from echelon.learn.models.registry import ModelConfig


class GRU(Memory):
    """`layers` GRU cells, one on top of the other."""

    supports_vmap = False  # torch has no batching rule for its GRU cell

    def __init__(self, hidden, layers):
        super().__init__(hidden)
        self.cells = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(layers))

    def spec(self):
        return Composite(x=Unbounded((len(self.cells), self.hidden)))

    def step(self, features, state):
        rows, x = features.flatten(0, -2), state["x"].flatten(0, -3)
        new = []
        for cell, old in zip(self.cells, x.unbind(1), strict=True):
            rows = cell(rows, old)
            new.append(rows.view_as(features))
        return new[-1], {"x": torch.stack(new, -2)}


@dataclass(frozen=True)
class Config(ModelConfig):
    layers: int = 1

    def build(self, specs):
        return ActorCritic(self, specs, Encoder(self, specs), GRU(self.hidden, self.layers))
