"""Smoke: some shots leave a cloud for `Catalog.cloud_s` seconds where their flight ends."""

import torch

from echelon.sim.model import SimModel
from echelon.sim.shots import Impacts
from echelon.state import State


def spawn_clouds(state: State, impacts: Impacts, sim_model: SimModel) -> State:
    """Create a cloud for each smoke shot that ended, in the first free cloud slot of its shooter."""
    clouds, span = state.clouds, sim_model.roster.launching
    if not sim_model.config.features.smoke or clouds.ttl.shape[1] == 0:
        return state
    bursts, point = impacts.ends[:, span], impacts.point[:, span]  # [B, L]: each of L launchers has one shot slot
    count = sim_model.roster.clouds_each
    free = (clouds.ttl == 0).unflatten(1, (-1, count))  # [B, L, count]
    fills = (bursts[..., None] & free & (free.cumsum(-1) == 1)).flatten(1)
    return state.replace(
        clouds=clouds.replace(
            pos=torch.where(fills[..., None], point.repeat_interleave(count, 1), clouds.pos),
            ttl=torch.where(fills, sim_model.rules.substeps(sim_model.catalog.cloud_s), clouds.ttl).to(torch.int32),
        )
    )
