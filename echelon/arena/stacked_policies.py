"""Many policies deciding in one batch of battles, each for the teams it commands.

A batch of B battles has 2B teams: blue of battle b is row b, red is row b + B. Networks of one architecture decide in
one forward over stacked weights, in blocks of `SLOTS` teams of one policy each. The slot of a team follows from its own
battle: products of matrices repeat bit for bit where shapes and places do, however many blocks there are, so a battle
alone is the same battle among hundreds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.group_policy import TeamPolicy
from echelon.env.observation.layout import STREAMS
from echelon.learn.models.actor_critic import ActorCritic, ActorNetwork, PolicyOutput, batched_forward
from echelon.runtime.compile import fused

SLOTS = 16
"""Teams of a block."""
CHUNK = 16
"""Blocks of one forward where its shape must not change: in a compiled graph, and on a GPU, whose library chooses
another kernel for another number of blocks."""


class BatchSlot(NamedTuple):
    """A team of the batch."""

    row: int
    """b for blue, b + B for red."""
    place: int
    """Where it stands in its block, 0 .. `SLOTS` - 1."""


class BatchObservation(NamedTuple):
    """What all teams of a batch observe, 2B of them, A mechs each."""

    streams: Mapping[str, Tensor]
    """`[2B, A, ...]`."""
    mask: Tensor
    """`[2B, A]` bool, the living."""
    telemetry: Tensor
    """`[2B, 16, 16]`."""
    noise: Tensor
    """`[2B, A, D]` standard normal numbers, each battle's own."""


def blocks_of(slots: Sequence[BatchSlot]) -> list[list[int]]:
    """Blocks of `SLOTS` rows, each in its place; -1 where a slot is free."""
    height = max(Counter(slot.place for slot in slots).values())
    blocks = [[-1] * SLOTS for _ in range(height)]
    filled: Counter[int] = Counter()
    for slot in slots:
        blocks[filled[slot.place]][slot.place] = slot.row
        filled[slot.place] += 1
    return blocks


class StackedForward:
    """The forward of one architecture over the stacked weights of several policies. Compiled once, for any of them.

    Args:
        like: a policy of this architecture.
        compute: dtype of matrix products, as in `ActorNetwork.compute`.
        compiled: one graph of a fixed shape, through `torch.compile`.
    """

    def __init__(self, like: ActorCritic, device: torch.device, compute: torch.dtype, compiled: bool) -> None:
        self.base = ActorNetwork(like.model, like.comm_dim).to(device).requires_grad_(False)
        self.base.compute = compute
        self.hidden = like.model.hidden
        self.chunk = CHUNK if compiled or device.type != "cpu" else None
        """Blocks of one call; None for as many as there are."""
        self.device = device
        self.call: Callable[..., PolicyOutput] = fused(batched_forward, device) if compiled else batched_forward


class StackedPolicies:
    """Policies of one architecture and the teams they command in a batch.

    Args:
        forward: of their architecture.
        policies: in evaluation mode.
        slots: of each policy.
        mechs: of a team, A.
    """

    def __init__(
        self,
        forward: StackedForward,
        policies: Sequence[ActorCritic],
        slots: Sequence[Sequence[BatchSlot]],
        mechs: int,
    ) -> None:
        self.forward = forward
        device = forward.device
        laid = [blocks_of(own) for own in slots]
        own_weights = [{k: v.to(device) for k, v in policy.network.state_dict().items()} for policy in policies]
        states = [weights for weights, own in zip(own_weights, laid, strict=True) for _ in own]
        blocks = [block for own in laid for block in own]
        chunk = forward.chunk or len(blocks)
        # The last chunk is filled up with blocks whose slots are all free.
        spare = -len(blocks) % chunk
        states, blocks = states + states[-1:] * spare, blocks + [[-1] * SLOTS] * spare
        weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        index = torch.tensor(blocks, device=device)
        self.chunks = [slice(at, at + chunk) for at in range(0, len(blocks), chunk)]
        self.weights = [{name: stack[own] for name, stack in weights.items()} for own in self.chunks]
        """`[n, ...]` of each chunk of n blocks."""
        self.index = [index[own].clamp_min(0) for own in self.chunks]
        """`[n, SLOTS]` rows of the batch; 0 where a slot is free, whose decision is dropped."""
        self.memory = [
            tuple(torch.zeros(*own.shape, mechs, forward.hidden, device=device) for _ in range(2)) for own in self.index
        ]
        """`h` and `c` `[n, SLOTS, A, hidden]` of each chunk."""
        self.taken = (index.flatten() >= 0).nonzero()[:, 0]
        self.rows = index.flatten()[self.taken]
        """`[G]` the teams commanded."""

    def distribution(self, seen: BatchObservation) -> tuple[Tensor, Tensor]:
        """`[G, A, D]` loc and scale of the pre-tanh actions of the teams commanded; takes the memory a step on."""
        locs, scales = [], []
        for number, (weights, index) in enumerate(zip(self.weights, self.index, strict=True)):
            streams = tuple(seen.streams[name][index] for name in STREAMS)
            telemetry = seen.telemetry[index]
            loc, scale, *memory = self.forward.call(
                self.forward.base, weights, streams, telemetry, *self.memory[number]
            )
            self.memory[number] = tuple(memory)
            locs.append(loc.flatten(0, 1))
            scales.append(scale.flatten(0, 1))
        return torch.cat(locs)[self.taken], torch.cat(scales)[self.taken]

    def decide(self, seen: BatchObservation) -> Tensor:
        """`[G, A, D]` actions of the teams commanded."""
        loc, scale = self.distribution(seen)
        return (loc + scale * seen.noise[self.rows]).tanh()


class PolicySlots:
    """The teams of one policy that decides by itself: a scripted commander, or any other `TeamPolicy`."""

    def __init__(self, policy: TeamPolicy, slots: Sequence[BatchSlot], mechs: int, device: torch.device) -> None:
        self.policy = policy
        self.rows = torch.tensor([slot.row for slot in slots], device=device)
        self.memory: TensorDict = policy.memory_spec().expand(len(slots), mechs).to(device).zero()

    def decide(self, seen: BatchObservation) -> Tensor:
        """`[G, A, D]` actions of its teams."""
        shape, device = self.memory.batch_size, self.rows.device
        observation = TensorDict({name: leaf[self.rows] for name, leaf in seen.streams.items()}, shape, device=device)
        telemetry = seen.telemetry[self.rows][:, None].expand(-1, shape[1], -1, -1)
        team = {"observation": observation, "mask": seen.mask[self.rows], "telemetry": telemetry, "memory": self.memory}
        decided = self.policy(TensorDict(team, shape, device=device))
        self.memory = decided.get(("next", "memory"), self.memory)
        action: Tensor = decided.get("action")
        return action
