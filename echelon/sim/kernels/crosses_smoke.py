"""Whether smoke lies between pairs of mechs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.runtime.geometry import length_sq
from echelon.sim.kernels.dispatch import HALF, ZERO, array, called, compiled, loops_on

FAR_SQUARED = 1e6
"""Squared distance assigned to inactive clouds, vox²."""


def crosses_smoke(
    pos: Tensor, clouds: Tensor, hangs: Tensor, first: Tensor, second: Tensor, radius: float, asked: Tensor
) -> Tensor:
    """`[B, P]` bool: a cloud's centre lies within its radius of the segment between two mechs.

    With a, b and d the squared lengths from the cloud to the first mech, to the second, and between the two, the
    cloud projects inside the segment where s = (a + d - b) / 2 is within 0..d, and is then a - s^2 / d away, squared.

    Args:
        pos: `[B, N, 3]` float32 vox, the mechs.
        clouds: `[B, C, 3]` float32 vox, their centres.
        hangs: `[B, C]` bool, active clouds.
        first, second: `[P]` int64, the mechs of each pair.
        radius: of every cloud, vox.
        asked: `[B, P]` bool, pairs to compute; the result is false for the others.
    """
    form = crosses_smoke_loops if loops_on(pos.device) else crosses_smoke_dense
    return form(pos, clouds, hangs, first, second, radius, asked)


def crosses_smoke_dense(
    pos: Tensor, clouds: Tensor, hangs: Tensor, first: Tensor, second: Tensor, radius: float, asked: Tensor
) -> Tensor:
    """`crosses_smoke` for every pair and cloud at once."""
    apart = length_sq(pos[:, second] - pos[:, first])[..., None]  # [B, P, 1]
    to_cloud = length_sq(clouds[:, None] - pos[:, :, None])  # [B, N, C]
    to_cloud = torch.where(hangs[:, None], to_cloud, FAR_SQUARED)
    wrapped = (to_cloud < radius**2).any(-1)  # [B, N]
    from_first, from_second = to_cloud[:, first], to_cloud[:, second]  # [B, P, C]
    along = 0.5 * (from_first + apart - from_second)
    beside = (along > 0) & (along < apart)
    crosses = beside & ((from_first - radius**2) * apart < along.square())
    return asked & (crosses.any(-1) | wrapped[:, first] | wrapped[:, second])


@torch.library.custom_op("echelon::crosses_smoke", mutates_args=(), device_types="cpu")
def crosses_smoke_loops(
    pos: Tensor, clouds: Tensor, hangs: Tensor, first: Tensor, second: Tensor, radius: float, asked: Tensor
) -> Tensor:
    """`crosses_smoke` pair by pair, stopping at the first cloud between them."""
    crosses = torch.empty_like(asked, dtype=torch.bool)
    pairs = array(first), array(second)
    hanging = array(clouds), array(hangs)
    to_cloud = np.empty((pos.shape[1], clouds.shape[1]), np.float32)
    _crosses_smoke_loop(array(pos), *hanging, *pairs, np.float32(radius), array(asked), to_cloud, array(crosses))
    return crosses


@crosses_smoke_loops.register_fake
def _(
    pos: Tensor, clouds: Tensor, hangs: Tensor, first: Tensor, second: Tensor, radius: float, asked: Tensor
) -> Tensor:
    return asked.new_empty(asked.shape)


@called
def distance_sq(one: Any, other: Any) -> Any:
    """Squared distance of two points."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


@called
def is_in_smoke(a: Any, b: Any, apart: Any, radius_sq: Any) -> Any:
    """Whether a cloud lies between two points; `a`, `b` and `apart` are squared distances as in `crosses_smoke`."""
    along = HALF * (a + apart - b)
    beside = along > ZERO and along < apart and (a - radius_sq) * apart < along * along
    return a < radius_sq or b < radius_sq or beside


@compiled
def _crosses_smoke_loop(
    pos: Any, clouds: Any, hangs: Any, first: Any, second: Any, radius: Any, asked: Any, to_cloud: Any, crosses: Any
) -> None:
    """Fills `crosses [B, P]`; `to_cloud [N, C]` is scratch memory."""
    radius_sq = radius * radius
    for battle in range(pos.shape[0]):
        crosses[battle] = False
        count = 0
        for cloud in range(clouds.shape[1]):
            if hangs[battle, cloud]:
                for mech in range(pos.shape[1]):
                    to_cloud[mech, count] = distance_sq(clouds[battle, cloud], pos[battle, mech])
                count += 1
        if count == 0:
            continue
        for pair in range(first.shape[0]):
            if not asked[battle, pair]:
                continue
            one, two = first[pair], second[pair]
            apart = distance_sq(pos[battle, two], pos[battle, one])
            for cloud in range(count):
                if is_in_smoke(to_cloud[one, cloud], to_cloud[two, cloud], apart, radius_sq):
                    crosses[battle, pair] = True
                    break
