"""Earlier policies of a learner, and how they are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.files import FileError
from echelon.runtime.state_dict import StateDict


class Snapshot(NamedTuple):
    """A frozen policy to meet."""

    name: str
    weights: Mapping[str, Tensor]
    """As in `ActorCritic.state_dict`, of the learner's own `ModelConfig`."""


DrawOpponent = Callable[[], Snapshot | None]
"""Asked for whom a block of battles meets next; the league has one of its own. None leaves it to the learner."""


class SnapshotPool:
    """Earlier selves of a learner, of which any is drawn as often as any other.

    Args:
        kept: how many are remembered; a new one takes the place of the oldest.
        seed: of the draws, each of which follows from it and from how many there were before.
    """

    def __init__(self, kept: int, seed: int) -> None:
        self.kept = kept
        self.seed = seed
        self.draws = 0
        self.selves: list[Snapshot] = []

    def join(self, name: str, policy: ActorCritic) -> None:
        """Remember a policy as it is now."""
        weights = {key: value.detach().clone() for key, value in policy.state_dict().items()}
        self.selves = [*self.selves, Snapshot(name, weights)][-self.kept :]

    def __call__(self) -> Snapshot:
        """Draw one."""
        chance = random.Random(f"{self.seed} {self.draws}")
        self.draws += 1
        return chance.choice(self.selves)

    def state_dict(self) -> StateDict:
        """All of them, their weights side by side `[K, ...]`."""
        stacks = {key: torch.stack([past.weights[key] for past in self.selves]) for key in self.selves[0].weights}
        return StateDict(stacks, {"names": [past.name for past in self.selves], "draws": self.draws})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Remember them in the place of those that joined so far, of which there must be one."""
        names, newest = state_dict.row("names", str), self.selves[-1].weights
        if not names:
            raise FileError(f"{state_dict.name}.names must name at least one, got none")
        state_dict.check({key: value.expand(len(names), *value.shape) for key, value in newest.items()})
        self.draws = state_dict.whole("draws", 0, 2**62)
        stacks = {key: stack.to(newest[key].device) for key, stack in state_dict.tensors.items()}
        selves = [Snapshot(name, {k: stack[i] for k, stack in stacks.items()}) for i, name in enumerate(names)]
        self.selves = selves[-self.kept :]
