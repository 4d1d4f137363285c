"""Arrays whose memory is used again once nobody holds it: fresh memory costs a page fault every 4 KiB."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

KEPT = 4
"""Arrays kept of one name: what is shown, what was shown before, and what a caller still holds of both."""
UNUSED = sys.getrefcount(np.empty(0)) + 2
"""References to an array that only a list and the one who asks hold."""


class Recycled:
    """Hands out arrays, the same again where nobody refers to one any more, be it by a tensor or a view of it.

    Copies, in other processes too, begin empty.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[np.ndarray]] = {}

    def __reduce__(self) -> tuple[type[Recycled], tuple[()]]:
        """See the class."""
        return Recycled, ()

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with arbitrary values. Those of one name are expected to have one shape and type at a time."""
        kept = self._kept.setdefault(name, [])
        for array in kept:
            if sys.getrefcount(array) == UNUSED and array.shape == shape and array.dtype == dtype:
                return array
        fresh = np.empty(shape, dtype)
        self._kept[name] = [fresh, *kept[: KEPT - 1]]
        return fresh

    def empty_like(self, name: str, values: np.ndarray) -> np.ndarray:
        """The same of the shape and type of others."""
        return self.empty(name, values.shape, values.dtype)
