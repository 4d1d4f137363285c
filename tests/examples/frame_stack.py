"""A frame-stacking model over four decisions: the memory of a mech contains its last three encoder outputs.

python pipelines/train.py --model frame_stack:Config
"""

from dataclasses import dataclass

import torch
from torch import nn
from torchrl.data import Composite, Unbounded

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder
from echelon.learn.models.memory import Memory
from echelon.learn.models.registry import ModelConfig


class FrameStack(Memory):
    def __init__(self, hidden, frames):
        super().__init__(hidden)
        self.frames = frames
        self.layer = nn.Linear(frames * hidden, hidden)

    def spec(self):
        return Composite(earlier=Unbounded((self.frames - 1, self.hidden)))

    def step(self, features, state):
        frames = torch.cat((state["earlier"], features.float()[..., None, :]), -2)
        return self.layer(frames.flatten(-2)).relu(), {"earlier": frames[..., 1:, :]}


@dataclass(frozen=True)
class Config(ModelConfig):
    frames: int = 4

    def build(self, specs):
        return ActorCritic(self, specs, Encoder(self, specs), FrameStack(self.hidden, self.frames))
