"""Two slots for opponents that change during a run, so that a battle keeps its opponent from start to end.

A battle uses the newest slot at its start and stores the number of that slot in its memory; a slot is overwritten only
when no running battle uses it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

SLOTS = 2
SLOT = "slot"
"""Memory entry with the slot of the battle: 0 before its first decision, then 1 or 2."""


def current_slot(memory: Tensor, newest: Tensor | int) -> Tensor:
    """`[B, A, 1]` slot of each battle, 1 or 2: that in `memory [B, A, 1]`, or the newest at the start of a battle."""
    return torch.where(memory == 0, newest + 1, memory)


def count_readers(memory: TensorDictBase, blocks: int) -> Tensor:
    """`[K, 2]` number of battles that use each slot, of K equal blocks of battles.

    Args:
        memory: memory of the teams that the opponents command, batch `[B, A]`.
        blocks: number of blocks, K.
    """
    slot = memory.get(SLOT)[:, 0, 0].view(blocks, -1)
    return torch.stack([(slot == number + 1).sum(1) for number in range(SLOTS)], 1)
