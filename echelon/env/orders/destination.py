"""The place to which each mech's order sends it, and the path to this place."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from echelon.env.orders.issue import known_enemies
from echelon.rules.orders import PLACE, OrderField, OrderKind
from echelon.runtime.geometry import length, unit
from echelon.sim.model import SimModel
from echelon.state import State
from echelon.world.walkways import goal_radius, way_at

SCREEN_VOX = 6.0
"""Distance of a screening mech's destination in front of the ordered place."""


class Destination(NamedTuple):
    """Destination of each mech."""

    place: Tensor  # [B, N, 2] vox
    is_sent: Tensor  # [B, N] bool, whether the mech has a destination
    reach: Tensor  # [B, N] vox, distance at which the mech has arrived


class Way(NamedTuple):
    """Path of each mech to a place, around walls."""

    step: Tensor  # [B, N, 2] unit vector of the next step, 0 on arrival
    left_vox: Tensor  # [B, N] vox, remaining path length, 0 on arrival


def destination(state: State, sim_model: SimModel) -> Destination:
    """Return the destination that each mech has from its order."""
    orders, reach_vox = state.orders_heard, sim_model.config.command.reach_vox
    kind, target = orders[..., OrderField.KIND], orders[..., OrderField.TARGET].long()
    goal = orders[..., PLACE]

    is_known = sim_model.roster.of_own_team(known_enemies(state, sim_model))  # [B, N, N]
    index = target.clamp_min(0)
    is_target_known = (target >= 0) & is_known.gather(2, index[..., None])[..., 0]
    pos = state.mechs.pos[..., :2]
    goal = torch.where(is_target_known[..., None], pos.gather(1, index[..., None].expand(-1, -1, 2)), goal)
    is_target_dead = (target >= 0) & ~state.mechs.alive.gather(1, index)

    screens = kind == int(OrderKind.SCREEN)
    distance = torch.where(is_known, length(pos[:, None] - goal[:, :, None]), torch.inf)  # [B, N, N]
    nearest = distance.argmin(-1)
    front = unit(pos.gather(1, nearest[..., None].expand(-1, -1, 2)) - goal) * SCREEN_VOX
    goal = torch.where((screens & is_known.any(-1))[..., None], goal + front, goal)

    is_sent = state.mechs.alive & (kind != int(OrderKind.FREE)) & ~is_target_dead
    reach = torch.where(kind == int(OrderKind.DEFEND), 2 * reach_vox, reach_vox)
    return Destination(goal, is_sent, reach)


def way_there(state: State, sent: Destination, sim_model: SimModel) -> Way:
    """Return the path of each mech to `sent.place`: along the map's direction field until it ends, then straight."""
    pos, config = state.mechs.pos[..., :2], sim_model.config
    offset = sent.place - pos
    distance = length(offset)
    step, walk = way_at(sim_model.maps.ways, state.map_id, pos, sent.place, config)
    step = torch.where((step != 0).any(-1, keepdim=True), step, unit(offset))
    remaining = torch.maximum(distance, walk + goal_radius(config)) - sent.reach
    is_near = distance < sent.reach
    return Way(torch.where(is_near[..., None], 0.0, step), torch.where(is_near, 0.0, remaining.clamp_min(0)))
