"""Teams of different sizes in one tensor: smaller teams are padded with zeros, and means exclude the padding.

`exists [..., A]` is True for mechs and False for padding, while the entry `mask` is True for living mechs. `exists` is
None if every team has A mechs; then there is no padding.
"""

from __future__ import annotations

from tensordict.utils import expand_as_right
from torch import Tensor

EXISTS = "exists"
"""Entry `[G, T, A]` bool of batches with teams of different sizes; absent in other batches."""


def without_padding(value: Tensor, exists: Tensor | None) -> Tensor:
    """Return `value [..., A, *]` with 0 where `exists [..., A]` is False, even where `value` is NaN."""
    return value if exists is None else value.masked_fill(~expand_as_right(exists, value), 0)


def mean_of_existing(value: Tensor, exists: Tensor | None) -> Tensor:
    """Return the mean of `value` over existing mechs, as a scalar; `value` has the shape of `exists`, optionally with a
    last dimension of 1.
    """
    return value.mean() if exists is None else without_padding(value, exists).sum() / exists.sum()


def team_mean(value: Tensor, exists: Tensor | None) -> Tensor:
    """Return the mean of `value [G, A, K]` over the mechs of each team, `[G, 1, K]`, given `exists [G, A]`."""
    if exists is None:
        return value.mean(1, keepdim=True)
    return without_padding(value, exists).sum(1, keepdim=True) / exists.sum(1)[:, None, None]
