"""Some battles from one batch, the others from another."""

from __future__ import annotations

import torch
from torch import Tensor


def select(which: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`yes` for the battles `which [B]` bool, `no` for the others; both `[B, ...]`."""
    return torch.where(which.view(-1, *[1] * (yes.dim() - 1)), yes, no)


def cleared(values: Tensor, which: Tensor) -> Tensor:
    """`values [B, ...]`, zero for the battles `which [B]`."""
    return torch.where(which.view(-1, *[1] * (values.dim() - 1)), 0, values)
