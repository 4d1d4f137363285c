"""Some battles from one batch, the others from another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def select(which: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`yes` for the battles `which [B]` bool, `no` for the others; both `[B, ...]`."""
    return torch.where(which.view(-1, *[1] * (yes.dim() - 1)), yes, no)


def cleared(values: Tensor, which: Tensor) -> Tensor:
    """`values [B, ...]`, zero for the battles `which [B]`."""
    return torch.where(which.view(-1, *[1] * (values.dim() - 1)), 0, values)


def replace_rows(
    which: Tensor, rows: Tensor | None, targets: Sequence[Tensor], sources: Sequence[Tensor | None]
) -> None:
    """Write row `rows[b]` of each source to row b of the target in its place, in its dtype, for the battles `which`.

    Args:
        which: `[B]` bool.
        rows: `[B]` int64; None for row b of b.
        targets: `[B, ...]` each, changed in place.
        sources: `[R, ...]` each, of other memory than the targets; None for zeros.
    """
    for target, source in zip(targets, sources, strict=True):
        if source is None:
            target.mul_(~which.view(-1, *[1] * (target.dim() - 1)))
        else:
            fresh = source if rows is None else source[rows]
            target.copy_(select(which, fresh.to(target.dtype), target))
