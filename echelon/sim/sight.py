"""Clear lines between mechs.

A line is clear if it crosses no smoke, and no opaque voxel lies strictly between the cells of the two hull centres.
"""

import torch
from torch import Tensor

from echelon.rules.roster import Pairs
from echelon.runtime.geometry import length, length_sq
from echelon.sim import formulas
from echelon.sim.model import SimModel
from echelon.sim.segments import is_blocked
from echelon.state import State

FAR_SQUARED = 1e6
"""Squared distance assigned to inactive clouds, vox²."""


def open_ground(state: State, pairs: Pairs, range_vox: float) -> Tensor:
    """`[B, P]` bool: both mechs are alive, at most `range_vox` apart, and no opaque voxel is between them."""
    pos = state.mechs.pos
    start, end = pos[:, pairs.first], pos[:, pairs.second]
    in_range = pairs.both(state.mechs.alive) & (length(end - start) <= range_vox)
    return in_range & ~is_blocked(state.terrain.opaque, start, end, range_vox, in_range)


def smoke_between(state: State, pairs: Pairs, mask: Tensor, sim_model: SimModel) -> Tensor:
    """`[B, P]` bool: smoke lies between two mechs. The result is False for pairs that are not in `mask`, `[B, P]`
    bool."""
    clouds, radius = state.clouds, sim_model.catalog.cloud_vox
    if not sim_model.config.features.smoke:
        return torch.zeros_like(mask)
    return crosses_smoke(state.mechs.pos, clouds.pos, clouds.ttl > 0, pairs.first, pairs.second, radius, mask)


def crosses_smoke(
    pos: Tensor, clouds: Tensor, hangs: Tensor, first: Tensor, second: Tensor, radius: float, mask: Tensor
) -> Tensor:
    """`[B, P]` bool: a cloud's centre lies within its radius of the segment between two mechs.

    Args:
        pos: positions of the mechs, `[B, N, 3]` float32 vox.
        clouds: centres of the clouds, `[B, C, 3]` float32 vox.
        hangs: active clouds, `[B, C]` bool.
        first, second: the two mechs of each pair, `[P]` int64.
        radius: radius of every cloud, vox.
        mask: pairs to compute, `[B, P]` bool; the result is false for the others.
    """
    separation_sq = length_sq(pos[:, second] - pos[:, first])[..., None]  # [B, P, 1]
    to_cloud = length_sq(clouds[:, None] - pos[:, :, None])  # [B, N, C]
    to_cloud = torch.where(hangs[:, None], to_cloud, FAR_SQUARED)
    wrapped = (to_cloud < radius**2).any(-1)  # [B, N]
    from_first, from_second = to_cloud[:, first], to_cloud[:, second]  # [B, P, C]
    crosses = formulas.projects_between(from_first, from_second, separation_sq, radius**2, 0.5)
    return mask & (crosses.any(-1) | wrapped[:, first] | wrapped[:, second])


def enemy_lines(state: State, sim_model: SimModel, range_vox: float) -> Tensor:
    """Return the clear lines within `range_vox` between mechs of different teams, `[B, N, N]` bool, symmetric."""
    pairs = sim_model.roster.enemies
    clear = open_ground(state, pairs, range_vox)
    return pairs.matrix(clear & ~smoke_between(state, pairs, clear, sim_model))
