"""Clear lines between mechs: no opaque voxel strictly between the cells of the two hull centres, and no smoke."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules.roster import Pairs
from echelon.runtime.geometry import length
from echelon.sim.kernels.crosses_smoke import crosses_smoke
from echelon.sim.kernels.first_hit import is_blocked
from echelon.sim.model import SimModel
from echelon.state import State


def open_ground(state: State, pairs: Pairs, range_vox: float) -> Tensor:
    """`[B, P]` bool: both mechs are alive, at most `range_vox` apart, and no opaque voxel is between them."""
    pos = state.mechs.pos
    start, end = pos[:, pairs.first], pos[:, pairs.second]
    near = pairs.both(state.mechs.alive) & (length(end - start) <= range_vox)
    return near & ~is_blocked(state.terrain.opaque, start, end, range_vox, near)


def smoke_between(state: State, pairs: Pairs, asked: Tensor, game: SimModel) -> Tensor:
    """`[B, P]` bool: smoke lies between two mechs. Computed only for pairs in `asked`, `[B, P]` bool; else false."""
    clouds, radius = state.clouds, game.catalog.cloud_vox
    if not game.config.features.smoke:
        return torch.zeros_like(asked)
    return crosses_smoke(state.mechs.pos, clouds.pos, clouds.ttl > 0, pairs.first, pairs.second, radius, asked)


def enemy_lines(state: State, game: SimModel, range_vox: float) -> Tensor:
    """`[B, N, N]` bool, symmetric: clear lines within `range_vox` between mechs of different teams."""
    pairs = game.roster.enemies
    clear = open_ground(state, pairs, range_vox)
    return pairs.matrix(clear & ~smoke_between(state, pairs, clear, game))
