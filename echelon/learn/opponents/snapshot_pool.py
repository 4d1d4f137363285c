"""Pools of frozen opponents, among them the pool of the learner's own snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from echelon.learn.checkpoint.provenance import SELF, weight_hash
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.json_checks import SHA256, listed, of_type
from echelon.runtime.tensor_files import StateDict

MOST_SNAPSHOTS = 1 << 20
ROUNDING = 1e-6
"""Largest part of the shares that counts as a rounding error."""
Weights = Mapping[str, Tensor]
"""Weights of a policy, as in `ActorCritic.state_dict`."""


class OpponentPool(Protocol):
    """Frozen policies with the learner's `ModelConfig`, and their shares of the battles."""

    @property
    def shares(self) -> Mapping[str, float]:
        """Share of the battles against each opponent, keyed by name. If the shares add up to less than 1, the learner's
        own snapshots get the rest. Opponents in use are replaced whenever the shares change.
        """

    def weights_of(self, name: str) -> Weights:
        """Return the weights of an opponent."""


class SnapshotPool:
    """An `OpponentPool` of the learner's latest snapshots, with equal shares.

    Args:
        capacity: maximum number of snapshots; the oldest is dropped first.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.snapshots: dict[str, Weights] = {}
        """Weights by name, oldest first."""

    def add(self, name: str, policy: ActorCritic) -> None:
        """Add a copy of the policy's current weights; replace a snapshot of the same name."""
        self.snapshots.pop(name, None)
        self.snapshots[name] = {key: value.detach().clone() for key, value in policy.state_dict().items()}
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        for name in list(self.snapshots)[: -self.capacity]:
            del self.snapshots[name]

    @property
    def shares(self) -> Mapping[str, float]:
        return dict.fromkeys(self.snapshots, 1 / max(len(self.snapshots), 1))

    def weights_of(self, name: str) -> Weights:
        return self.snapshots[name]

    def state_dict(self) -> StateDict:
        """Return the weights of all K snapshots, stacked `[K, ...]`, and their names."""
        weights = list(self.snapshots.values())
        return StateDict(
            {key: torch.stack([state[key] for state in weights]) for key in weights[0]}, {"names": list(self.snapshots)}
        )

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Replace the snapshots by those of a checkpoint. The pool must already contain a snapshot, which defines the
        names and shapes of the weights.
        """
        names = state_dict.fact("names", listed(of_type(str), 1, MOST_SNAPSHOTS))
        reference = list(self.snapshots.values())[-1]
        state_dict.check({key: value.expand(len(names), *value.shape) for key, value in reference.items()})
        stacks = {key: stack.to(reference[key].device) for key, stack in state_dict.tensors.items()}
        self.snapshots = {name: {k: stack[i] for k, stack in stacks.items()} for i, name in enumerate(names)}
        self._drop_oldest()


class MixedPool:
    """An `OpponentPool` of another pool's opponents and the learner's snapshots, which get the remaining share.

    Args:
        first: the other pool; None for snapshots alone.
        past: the snapshots, at least one.
    """

    def __init__(self, first: OpponentPool | None, past: SnapshotPool) -> None:
        self.first, self.past = first, past
        self.identities: dict[str, str] = {}

    @property
    def shares(self) -> Mapping[str, float]:
        """Shares, which sum to 1."""
        shares = {} if self.first is None else dict(self.first.shares)
        rest = 1 - sum(shares.values())
        past = {name: rest * share for name, share in self.past.shares.items()} if rest > ROUNDING else {}
        return {**past, **shares}

    def weights_of(self, name: str) -> Weights:
        if self.first is not None and name in self.first.shares:
            return self.first.weights_of(name)
        return self.past.weights_of(name)

    def identity_of(self, name: str) -> str:
        """Return an opponent's provenance entry, which is `SELF` for snapshots of the learner, else the sha256 of the
        weights.
        """
        if name not in self.identities:
            is_other = self.first is not None and name in self.first.shares and not SHA256.holds(name)
            identity = name if SHA256.holds(name) else SELF
            self.identities[name] = weight_hash(self.weights_of(name)) if is_other else identity
        return self.identities[name]
