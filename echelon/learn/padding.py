"""Teams of different size in one tensor: padded with zeros to the larger, and counted without padding.

`exists [..., A]` tells mechs from padding, as the mask tells the living from the dead. It is None where every team has
A mechs, so that nothing is masked there.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor
from torch.nn.functional import pad

EXISTS = "exists"
"""Entry `[G, T, A]` bool of a batch that holds teams of different size; absent in others."""


def pad_mechs(leaf: Tensor, mechs: int) -> Tensor:
    """`[R, mechs, ...]` from `[R, A, ...]`: zeros, or False, behind the A mechs; the tensor itself if A is `mechs`."""
    missing = mechs - leaf.shape[1]
    return leaf if missing == 0 else pad(leaf, (*[0, 0] * (leaf.dim() - 2), 0, missing))


def pad_team(team: TensorDictBase, mechs: int) -> TensorDictBase:
    """A team of batch `[R, mechs]` from batch `[R, A]`, as `pad_mechs`."""
    rows, team_size = team.batch_size
    return team if team_size == mechs else team.apply(lambda leaf: pad_mechs(leaf, mechs), batch_size=[rows, mechs])


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
