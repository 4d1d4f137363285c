"""Keys and layout of a policy's entries in a TensorDict.

Entries have one mech axis after the batch, as in `echelon.versus` (batch `[B]`, `ego [B, A, F]`) and in the batches of
`TeamCollector`. Alternatively, entries have no mech axis and every mech is a row of the batch, as in `echelon.mechs`
(batch `[B, A]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor

from echelon.agents.team_policy import entry
from echelon.learn.models.memory import MemoryState

TELEMETRY, IS_INIT = "telemetry", "is_init"
INPUT_HINT = (
    'Make echelon.versus or mechs with observation="structured" and memory=policy.memory_spec(), and act with '
    "policy.get_policy_operator(group); GroupPolicy acts for a team of an EchelonEnv (docs/POLICIES.md)"
)
"""Hint for inputs that lack an entry."""


class Layout(NamedTuple):
    """Layout of the leaves of a TensorDict. A network requires a mech axis and, for sequences, time as the
    first axis.
    """

    batch: torch.Size
    is_sequence: bool
    """Whether the last batch dimension is time."""
    mech_axis: Literal["leaf", "batch", "none"]
    """Position of the mech axis: after the batch, the last batch dimension, or none if mechs are independent rows."""

    def inward(self, leaf: Tensor) -> Tensor:
        """Return a leaf as the network requires it, as a view `[..., A, *]`, or `[T, S, A, *]` for sequences, with time
        first.
        """
        return self.time_first(leaf.unsqueeze(len(self.batch)) if self.mech_axis == "none" else leaf)

    def outward(self, leaf: Tensor) -> Tensor:
        """Inverse of `inward`."""
        if self.is_sequence:
            rows = leaf.transpose(0, 1)
            leaf = rows[0] if len(self.batch) == 1 else rows.unflatten(0, self.batch[:-1])
        return leaf.squeeze(len(self.batch)) if self.mech_axis == "none" else leaf

    def time_first(self, leaf: Tensor) -> Tensor:
        """Return a view `[T, S, *]` of a sequence `[*S, T, *]`; S is the product of the batch dimensions before
        time.
        """
        if not self.is_sequence:
            return leaf
        depth = len(self.batch)
        return (leaf.unsqueeze(0) if depth == 1 else leaf.flatten(0, depth - 2)).transpose(0, 1)


class PolicyInputs(NamedTuple):
    """Arguments of `ActorNetwork`."""

    streams: tuple[Tensor, ...]
    telemetry: Tensor
    memory: MemoryState


class TeamKeys:
    """Keys of one group's entries, or of the entries at the root.

    Args:
        memory: names of the policy's memory entries.
        streams: names of the policy's input streams.
        group: the group; None for the root.
    """

    def __init__(self, memory: Sequence[str], streams: Sequence[str], group: str | None = None) -> None:
        self.group = group
        self.streams: dict[str, NestedKey] = {name: self._key("observation", name) for name in streams}
        self.memory: dict[str, NestedKey] = {name: self._key("memory", name) for name in memory}
        self.next_memory: dict[str, NestedKey] = {name: ("next", *self._path("memory", name)) for name in memory}
        self.ego, self.enemy = self._key("observation", "ego"), self._key("enemy")
        self.action, self.pre_tanh, self.embed = (self._key(name) for name in ("action", "pre_tanh", "embed"))
        self.loc, self.scale = self._key("loc"), self._key("scale")
        self.pre_tanh_log_prob = self._key("pre_tanh_log_prob")
        self.state_value, self.state_value_normalized = (
            self._key(name) for name in ("state_value", "state_value_normalized")
        )

    def of_group(self, group: str | None) -> TeamKeys:
        """Return the same keys for another group."""
        return TeamKeys(list(self.memory), list(self.streams), group)

    def _path(self, *names: str) -> tuple[str, ...]:
        return names if self.group is None else (self.group, *names)

    def _key(self, *names: str) -> NestedKey:
        path = self._path(*names)
        return path if len(path) > 1 else path[0]

    @property
    def read(self) -> list[NestedKey]:
        """Entries read by one decision."""
        return [*self.streams.values(), TELEMETRY, *self.memory.values()]

    def layout(self, data: TensorDictBase, is_sequence: bool) -> Layout:
        """Return the layout of the entries in `data`.

        The environment expands a battle's telemetry map over the mechs of a team. A map that is expanded over the last
        batch dimension therefore marks that dimension as the mech axis, and is encoded once.
        """
        depth = data.batch_dims
        if entry(data, self.ego, INPUT_HINT).dim() == depth + 2:
            return Layout(data.batch_size, is_sequence, "leaf")
        is_shared = not is_sequence and entry(data, TELEMETRY, INPUT_HINT).stride(depth - 1) == 0
        return Layout(data.batch_size, is_sequence, "batch" if is_shared else "none")

    def inputs(self, data: TensorDictBase, layout: Layout) -> PolicyInputs:
        """Return the inputs of one decision, or of whole sequences with the memory of their first step."""
        streams = tuple(layout.inward(entry(data, key, INPUT_HINT)) for key in self.streams.values())
        memory = {name: layout.inward(entry(data, key, INPUT_HINT)) for name, key in self.memory.items()}
        if layout.is_sequence:
            memory = {name: leaf[0] for name, leaf in memory.items()}
        telemetry = layout.time_first(entry(data, TELEMETRY, INPUT_HINT))
        if layout.mech_axis == "batch":
            telemetry = telemetry.select(data.batch_dims - 1, 0)
        return PolicyInputs(streams, telemetry, memory)
