"""The zone: who stands in it, who controls it, and the score that grows by it."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.runtime.geometry import length
from echelon.sim.model import SimModel
from echelon.sim.terrain import at_cells
from echelon.state import State


def is_inside(state: State, game: SimModel) -> Tensor:
    """`[B, N]` bool: alive, within the zone's circle, and not holding it from the air."""
    mechs, maps = state.mechs, game.maps
    away = length(mechs.pos[..., :2] - maps.zone_center[state.map_id][:, None])
    underside = mechs.pos[..., 2] - game.roster.half_size[:, 2]
    within = away < maps.zone_radius[state.map_id][:, None]
    return mechs.alive & within & (underside < game.rules.zone_ceiling_vox)


def path_length(state: State, game: SimModel) -> Tensor:
    """`[B, N]` walking distance to the zone's edge, in lengths of the map's longest side."""
    cell = state.mechs.pos.floor().long()
    vox = at_cells(game.maps.path_length, state.map_id, cell[..., 0], cell[..., 1])
    return exact.divide(vox, game.config.world.longest_side)


def control(inside: Tensor, game: SimModel) -> Tensor:
    """`[B, 2]` tick of each team, 0..1, by the living tonnage `inside [B, N]` the zone."""
    own = game.roster.by_team(inside * game.roster.tonnage)  # [B, 2]
    enemy = own.flip(1)
    margin = (own - enemy) / (own + enemy).clamp_min(1.0)
    least = game.rules.contested_share
    shared = least + (1 - least) * margin.clamp_min(0.0)
    present, contested = own > 0, (own > 0) & (enemy > 0)
    return torch.where(contested, shared, present.to(own.dtype))


def score(state: State, game: SimModel) -> State:
    """Add one decision of control to each team's score."""
    inside = is_inside(state, game)
    tick = control(inside, game)
    seconds = game.rules.decision_s
    return state.replace(
        score=state.score + tick * seconds,
        control=tick,
        tally=state.tally.replace(zone_s=state.tally.zone_s + inside.float() * seconds),
    )
