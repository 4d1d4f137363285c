"""Smoke: smoke shots leave a cloud where their flight ends, for `CLOUD_S` seconds."""

from __future__ import annotations

import torch

from echelon.rules.catalog import CLOUD_S, CLOUDS, Weapon
from echelon.sim.model import SimModel
from echelon.sim.shots import Impacts
from echelon.state import State


def billow(state: State, impacts: Impacts, game: SimModel) -> State:
    """Create a cloud for each smoke shot that ended, in the first free cloud slot of its shooter."""
    if not game.config.features.smoke:
        return state
    clouds, span = state.clouds, game.roster.shots.span[int(Weapon.SMOKE)]
    bursts, point = impacts.ends[:, span], impacts.point[:, span]  # [B, N]: every mech has one launcher of one slot
    free = (clouds.ttl == 0).unflatten(1, (-1, CLOUDS))  # [B, N, CLOUDS]
    fills = (bursts[..., None] & free & (free.cumsum(-1) == 1)).flatten(1)
    return state.replace(
        clouds=clouds.replace(
            pos=torch.where(fills[..., None], point.repeat_interleave(CLOUDS, 1), clouds.pos),
            ttl=torch.where(fills, game.rules.substeps(CLOUD_S), clouds.ttl).to(torch.int32),
        )
    )
