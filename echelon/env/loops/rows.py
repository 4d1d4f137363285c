"""Convert a mask of battles to indices. This reads the tensor on the host, so it is meant for a CPU."""

from __future__ import annotations

from torch import Tensor


def rows_where(which: Tensor) -> Tensor:
    """Return `[R]` int64 indices of the battles `which [B]` bool."""
    return which.nonzero()[:, 0]
