"""Slots for opponents that change during a run, so that a battle keeps its opponent from start to end.

A battle chooses a slot at its start and stores the number of that slot in its memory; a slot is overwritten only when
no running battle uses it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

SLOT = "slot"
"""Memory entry with the slot of the battle, counted from 1; 0 before its first decision."""


def current_slot(memory: Tensor, chosen: Tensor | int) -> Tensor:
    """`[B, A, 1]` slot of each battle, counted from 1: that in `memory [B, A, 1]`, or `chosen + 1` at its start."""
    return torch.where(memory == 0, chosen + 1, memory)


def count_readers(memory: TensorDictBase, blocks: int, slots: int) -> Tensor:
    """`[K, S]` number of battles that use each of S slots, of K equal blocks of battles.

    Args:
        memory: memory of the teams that the opponents command, batch `[B, A]`.
    """
    slot = memory.get(SLOT)[:, 0, 0].view(blocks, -1)
    return torch.stack([(slot == number + 1).sum(1) for number in range(slots)], 1)
