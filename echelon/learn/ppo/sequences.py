"""Training sequences of a rollout: of whole teams, or of single mechs without absent ones."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor

from echelon.learn.models.keys import IS_INIT, TELEMETRY
from echelon.learn.padding import EXISTS
from echelon.runtime.cuda_graphs import storage_of

LIVING, DECISIONS = "living", "decisions"
"""Entries `[S, L, 1]`: numbers of decisions of living mechs and of all mechs in the full minibatch. With gradient
accumulation or several processes they exceed the counts of the data; without these entries the data is counted."""
NOT_OF_MECHS = (TELEMETRY, IS_INIT, EXISTS, LIVING, DECISIONS, "enemy")
"""Entries of a minibatch without a mech axis of the learner's team."""
TRAINING_KEYS = (
    *("observation", "telemetry", "enemy", "mask", EXISTS, "is_init", "pre_tanh", "pre_tanh_log_prob", "advantage"),
    *("state_value", "state_value_normalized", "value_target", "value_target_normalized"),
)


class Sequences:
    """A rollout `[G, T]`, split into G * T / length training sequences of equal length.

    Args:
        batch: the rollout with advantages; only its `TRAINING_KEYS` are used.
        memory: recurrent memory at the start of each sequence, `[G, T / length]`.
        length: length L of a sequence.
    """

    def __init__(self, batch: TensorDictBase, memory: TensorDictBase, length: int) -> None:
        # `TeamCollector` stores time as the first dimension, so this transpose and flatten copy nothing.
        self.data = batch.select(*TRAINING_KEYS, strict=False).transpose(0, 1).flatten(0, 1)
        self.memory = memory.transpose(0, 1).flatten(0, 1)
        self.length = length
        self.teams = batch.shape[0]
        self.count = memory.shape.numel()
        # A batch from TorchRL's `next(collector)` has no device, so read it from one of its tensors.
        self.device = batch.get("is_init").device

    def places(self) -> tuple[int, ...]:
        """Return the addresses of the tensors; they may differ between rollouts."""
        return tuple(storage_of(leaf) for data in (self.data, self.memory) for leaf in data.values(True, True))

    def shuffled(self, parts: int) -> Iterator[Tensor]:
        """Yield indices of all sequences in random order, split into `parts` of nearly equal size."""
        yield from torch.randperm(self.count, device=self.device).tensor_split(parts)

    def decisions(self, sequences: int) -> int:
        """Return the number of mech decisions in this number of sequences."""
        return sequences * self.length * self.data.get("mask").shape[-1]

    def rows(self, index: Tensor) -> Tensor:
        """Return the rows of `data` that hold the sequences `index [S]`, `[L * S]`, with time first."""
        chunk, team = index // self.teams, index % self.teams
        offsets = torch.arange(self.length, device=self.device)[:, None] * self.teams
        return (chunk * self.length * self.teams + team + offsets).flatten()

    def counted(self, index: Tensor) -> TensorDictBase:
        """Return `mask [L * S, A]` of the sequences `index [S]`, and `exists` if there is padding."""
        rows, data = self.rows(index), self.data.select("mask", EXISTS, strict=False)
        return data.apply(lambda leaf: leaf.index_select(0, rows), batch_size=rows.shape)

    def take(self, index: Tensor) -> TensorDictBase:
        """Return the sequences `index [S]`, batch `[S, L]`, with the `memory` of their first step at every step."""
        rows, shape = self.rows(index), (self.length, len(index))

        def pick(leaf: Tensor) -> Tensor:
            return leaf.index_select(0, rows).unflatten(0, shape)

        def expand(leaf: Tensor) -> Tensor:
            first = leaf.index_select(0, index)
            return first[:, None].expand(-1, self.length, *first.shape[1:])

        sequences = self.data.apply(pick, batch_size=shape).transpose(0, 1)
        return sequences.set("memory", self.memory.apply(expand, batch_size=sequences.shape))


class MechSequences(Sequences):
    """Training sequences of single mechs, `A` = 1, without those in which a mech is absent all the time."""

    def __init__(self, batch: TensorDictBase, memory: TensorDictBase, length: int) -> None:
        super().__init__(batch, memory, length)
        exists = self.data.get(EXISTS).unflatten(0, (-1, length, self.teams)).any(1).flatten(0, 1)
        self.of_team, self.mech = exists.nonzero().unbind(1)
        self.mechs, self.count = exists.shape[1], len(self.mech)

    def decisions(self, sequences: int) -> int:
        return sequences * self.length

    def _pick(self, name: NestedKey, leaf: Tensor, index: Tensor) -> Tensor:
        """Return the rows of `leaf` that hold the sequences `index [S]`, `[L * S, ...]`."""
        rows = self.rows(self.of_team[index])
        if name in NOT_OF_MECHS and name != EXISTS:
            return leaf.index_select(0, rows)
        of_mech = rows * self.mechs + self.mech[index].repeat(self.length)
        return leaf.flatten(0, 1).index_select(0, of_mech)[:, None]

    def counted(self, index: Tensor) -> TensorDictBase:
        data = self.data.select("mask", EXISTS)
        shape = [self.length * len(index)]
        return data.named_apply(lambda name, leaf: self._pick(name, leaf, index), batch_size=shape)

    def take(self, index: Tensor) -> TensorDictBase:
        shape, first = (self.length, len(index)), self.of_team[index] * self.mechs + self.mech[index]

        def pick(name: NestedKey, leaf: Tensor) -> Tensor:
            return self._pick(name, leaf, index).unflatten(0, shape)

        def expand(leaf: Tensor) -> Tensor:
            begins = leaf.flatten(0, 1).index_select(0, first)[:, None]
            return begins[:, None].expand(-1, self.length, *begins.shape[1:])

        sequences = self.data.named_apply(pick, nested_keys=True, batch_size=shape).transpose(0, 1)
        return sequences.set("memory", self.memory.apply(expand, batch_size=sequences.shape))
