"""Teams of different size in one tensor: padded with zeros to the larger, and counted without padding.

`exists [..., A]` tells mechs from padding, as the mask tells the living from the dead. It is None where every team has
A mechs, so that nothing is masked there.
"""

from __future__ import annotations

from tensordict.utils import expand_as_right
from torch import Tensor

EXISTS = "exists"
"""Entry `[G, T, A]` bool of a batch that holds teams of different size; absent in others."""


def without_padding(value: Tensor, exists: Tensor | None) -> Tensor:
    """`value [..., A, *]` with 0 where no mech exists (`exists [..., A]`), whatever it holds there."""
    return value if exists is None else value.masked_fill(~expand_as_right(exists, value), 0)


def mean_of_existing(value: Tensor, exists: Tensor | None) -> Tensor:
    """`[]` mean of `value`, of the shape of `exists` or with a dimension of size 1 behind it, over mechs that exist."""
    return value.mean() if exists is None else without_padding(value, exists).sum() / exists.sum()


def team_mean(value: Tensor, exists: Tensor | None) -> Tensor:
    """`[G, 1, K]` mean over the mechs of each team of `value [G, A, K]`, with `exists [G, A]`."""
    if exists is None:
        return value.mean(1, keepdim=True)
    return without_padding(value, exists).sum(1, keepdim=True) / exists.sum(1)[:, None, None]
