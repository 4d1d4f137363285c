"""Who sits where in a batch of battles between many commanders, and how all of them decide at once.

A battle has two seats, blue b and red b + B. Networks of one architecture decide in one forward over stacked weights,
in blocks of `SEATS` seats of one policy each. A seat's place in its block follows from its own battle: products of
matrices repeat bit for bit where shapes and places do, however many blocks there are, so a battle alone is the same
battle among hundreds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.agents.heuristic import Heuristic
from echelon.env.layout import STREAMS
from echelon.learn.policy import MechPolicy, Network, think_together

SEATS = 16


class Seat(NamedTuple):
    """A team in a battle of the batch."""

    row: int
    """b for blue, b + B for red."""
    place: int
    """Where it sits in its block, 0 .. `SEATS` - 1."""


class Seen(NamedTuple):
    """What all teams perceive, 2B of them, A mechs each."""

    streams: Mapping[str, Tensor]
    """`[2B, A, ...]`."""
    telemetry: Tensor
    """`[2B, 16, 16]`."""
    chance: Tensor
    """`[2B, A, D]` standard normal: each battle's own."""


def blocks_of(seats: Sequence[Seat]) -> list[list[int]]:
    """Blocks of `SEATS` rows, each in its place; -1 where nobody sits."""
    height = max(Counter(seat.place for seat in seats).values())
    blocks = [[-1] * SEATS for _ in range(height)]
    filled: Counter[int] = Counter()
    for seat in seats:
        blocks[filled[seat.place]][seat.place] = seat.row
        filled[seat.place] += 1
    return blocks


class Stack:
    """Policies of one architecture and the seats they take.

    Args:
        policies: of equal `ModelConfig` and message length, in evaluation mode.
        seats: of each policy.
        mechs: of a team, A.
        device: where the battles are.
        compute: dtype of matrix products, as in `Network.compute`.
    """

    def __init__(
        self,
        policies: Sequence[MechPolicy],
        seats: Sequence[Sequence[Seat]],
        mechs: int,
        device: torch.device,
        compute: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        model = policies[0].model
        self.base = Network(model, policies[0].comm_dim).to(device)
        self.base.compute = compute
        laid = [blocks_of(own) for own in seats]
        owner = [policy.network.state_dict() for policy, own in zip(policies, laid, strict=True) for _ in own]
        self.weights = {name: torch.stack([weights[name] for weights in owner]).to(device) for name in owner[0]}
        """`[n, ...]` of each block."""
        index = torch.tensor([block for own in laid for block in own], device=device)
        self.index = index.clamp_min(0)
        """`[n, SEATS]` rows of the batch; 0 where nobody sits, whose decision is dropped."""
        self.taken = (index.flatten() >= 0).nonzero()[:, 0]
        self.rows = index.flatten()[self.taken]
        """`[G]` the seats taken."""
        self.h = torch.zeros(*index.shape, mechs, model.hidden, device=device)
        self.c = torch.zeros_like(self.h)
        self._think = torch.compile(think_together, fullgraph=True, dynamic=False) if compiled else think_together

    def law(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """`[G, A, D]` mean and deviation of the pre-tanh actions of the seats taken; remembers what was seen."""
        streams = tuple(seen.streams[name][self.index] for name in STREAMS)
        loc, scale, self.h, self.c = self._think(
            self.base, self.weights, streams, seen.telemetry[self.index], self.h, self.c
        )
        return loc.flatten(0, 1)[self.taken], scale.flatten(0, 1)[self.taken]

    def decide(self, seen: Seen) -> Tensor:
        """`[G, A, D]` actions of the seats taken."""
        loc, scale = self.law(seen)
        return (loc + scale * seen.chance[self.rows]).tanh()


class Script:
    """The seats of one scripted commander."""

    def __init__(self, commander: Heuristic, seats: Sequence[Seat], mechs: int, device: torch.device) -> None:
        self.commander = commander
        self.rows = torch.tensor([seat.row for seat in seats], device=device)
        self.memory: TensorDict = commander.memory_spec().expand(len(seats), mechs).to(device).zero()

    def decide(self, seen: Seen) -> Tensor:
        """`[G, A, D]` actions of its seats."""
        streams = {name: leaf[self.rows] for name, leaf in seen.streams.items()}
        shape = self.memory.batch_size
        observation = TensorDict(streams, shape, device=self.rows.device)
        team = TensorDict({"observation": observation, "memory": self.memory}, shape, device=self.rows.device)
        decided = self.commander(team)
        self.memory = decided.get(("next", "memory"))
        action: Tensor = decided.get("action")
        return action
