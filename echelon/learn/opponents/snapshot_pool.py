"""Pool of earlier snapshots of the learner's policy."""

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
    """Frozen weights of an opponent."""

    name: str
    weights: Mapping[str, Tensor]
    """As in `ActorCritic.state_dict`, with the learner's `ModelConfig`."""


DrawOpponent = Callable[[], Snapshot | None]
"""Returns the next opponent of a block of battles, or None for one of the learner's own snapshots."""


class SnapshotPool:
    """The learner's latest snapshots, drawn uniformly.

    Args:
        capacity: maximum number of snapshots; the oldest is dropped first.
        seed: seed of the draws; each depends on it and on the number of draws before.
    """

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity = capacity
        self.seed = seed
        self.draws = 0
        self.snapshots: list[Snapshot] = []

    def add(self, name: str, policy: ActorCritic) -> None:
        """Add a copy of the policy's current weights."""
        weights = {key: value.detach().clone() for key, value in policy.state_dict().items()}
        self.snapshots = [*self.snapshots, Snapshot(name, weights)][-self.capacity :]

    def __call__(self) -> Snapshot:
        """Draw a snapshot."""
        generator = random.Random(f"{self.seed} {self.draws}")
        self.draws += 1
        return generator.choice(self.snapshots)

    def state_dict(self) -> StateDict:
        """Weights of all K snapshots, stacked `[K, ...]`, their names, and the number of draws."""
        stacks = {
            key: torch.stack([snapshot.weights[key] for snapshot in self.snapshots])
            for key in self.snapshots[0].weights
        }
        return StateDict(stacks, {"names": [snapshot.name for snapshot in self.snapshots], "draws": self.draws})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Replace the snapshots by those of a checkpoint. The pool must not be empty: it defines names and shapes.

        Raises:
            FileError: the state does not fit this pool.
        """
        names, newest = state_dict.row("names", str), self.snapshots[-1].weights
        if not names:
            raise FileError(f"{state_dict.name}.names must name at least one, got none")
        state_dict.check({key: value.expand(len(names), *value.shape) for key, value in newest.items()})
        self.draws = state_dict.whole("draws", 0, 2**62)
        stacks = {key: stack.to(newest[key].device) for key, stack in state_dict.tensors.items()}
        snapshots = [Snapshot(name, {k: stack[i] for k, stack in stacks.items()}) for i, name in enumerate(names)]
        self.snapshots = snapshots[-self.capacity :]
