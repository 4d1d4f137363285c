"""Clear lines between mechs: no opaque voxel strictly between the cells of the two hull centres, and no smoke."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules.catalog import CLOUD_VOX
from echelon.rules.roster import Pairs
from echelon.runtime.geometry import length, length_sq
from echelon.sim.model import SimModel
from echelon.sim.terrain import HAS_LOOPS, is_blocked, loops_on
from echelon.state import State

if HAS_LOOPS:
    from echelon.sim.lines import veil
FAR_SQUARED = 1e6
"""Squared distance of a cloud that is not there."""


def open_ground(state: State, pairs: Pairs, range_vox: float) -> Tensor:
    """`[B, P]` bool: both alive and at most `range_vox` apart with no opaque voxel between."""
    pos = state.mechs.pos
    start, end = pos[:, pairs.first], pos[:, pairs.second]
    near = pairs.both(state.mechs.alive) & (length(end - start) <= range_vox)
    return near & ~is_blocked(state.terrain.opaque, start, end, range_vox, near)


def smoke_between(state: State, pairs: Pairs, asked: Tensor, game: SimModel) -> Tensor:
    """`[B, P]` bool: a cloud's centre lies within its radius of the segment between two mechs, of those `asked` about.

    With a, b and d the squared lengths from the cloud to the first mech, to the second, and between the two, the
    cloud projects inside the segment where s = (a + d - b) / 2 is within 0..d, and is then a - s^2 / d away, squared.
    """
    pos, clouds = state.mechs.pos, state.clouds
    if not game.config.features.smoke:
        return torch.zeros_like(asked)
    if loops_on(pos.device):
        return veil(pos, clouds.pos, clouds.ttl > 0, torch.stack((pairs.first, pairs.second)), CLOUD_VOX, asked)
    return asked & smoke_in_closed_form(state, pairs)


def smoke_in_closed_form(state: State, pairs: Pairs) -> Tensor:
    """`smoke_between` for every pair at once."""
    pos, clouds = state.mechs.pos, state.clouds
    apart = length_sq(pos[:, pairs.second] - pos[:, pairs.first])[..., None]  # [B, P, 1]
    to_cloud = length_sq(clouds.pos[:, None] - pos[:, :, None])  # [B, N, C]
    to_cloud = torch.where((clouds.ttl > 0)[:, None], to_cloud, FAR_SQUARED)
    wrapped = (to_cloud < CLOUD_VOX**2).any(-1)  # [B, N]
    first, second = to_cloud[:, pairs.first], to_cloud[:, pairs.second]  # [B, P, C]
    along = 0.5 * (first + apart - second)
    beside = (along > 0) & (along < apart)
    crosses = beside & ((first - CLOUD_VOX**2) * apart < along.square())
    return crosses.any(-1) | wrapped[:, pairs.first] | wrapped[:, pairs.second]


def enemy_lines(state: State, game: SimModel, range_vox: float) -> Tensor:
    """`[B, N, N]` bool, symmetric: clear lines within `range_vox` between mechs of different teams."""
    pairs = game.roster.enemies
    clear = open_ground(state, pairs, range_vox)
    return pairs.matrix(clear & ~smoke_between(state, pairs, clear, game))
