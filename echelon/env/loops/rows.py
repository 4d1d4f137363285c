"""Which battles something is true of, read on the host: a CPU is its own host."""

from __future__ import annotations

from torch import Tensor


def rows_where(which: Tensor) -> Tensor:
    """`[R]` int64: the battles `which [B]` bool."""
    return which.nonzero()[:, 0]
