"""What a mech is told: the stream `order`, and the place it was sent to in place of the zone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from echelon.env.observation import layout
from echelon.env.orders.issue import known_enemies
from echelon.rules.orders import PLACE, Discipline, OrderField, OrderKind
from echelon.runtime import exact
from echelon.runtime.geometry import dot, heading, length, to_body, unit
from echelon.sim.model import SimModel
from echelon.state import State
from echelon.world.ways import goal_radius, way_at

SCREEN_VOX = 6.0
"""How far in front of the place that it screens a mech is shown its own."""
LONGEST_AGE_S = 60.0


def add_orders(state: State, streams: dict[str, Tensor], game: SimModel) -> dict[str, Tensor]:
    """`streams` of all mechs with `order [B, N, F]`, and `ego` steered where orders steer; as they are without orders.

    Args:
        streams: `[B, N, ...]` each, as `observe` makes them; `ego` is not written to.
    """
    command = game.config.command
    if not command.enabled:
        return streams
    goal = destination(state, game)
    way = way_there(state, goal, game)
    streams = {**streams, layout.ORDER_STREAM: order(state, goal, way, game)}
    if command.steers:
        streams["ego"] = steered(state, streams["ego"], goal, way, game)
    return streams


class Destination(NamedTuple):
    """Where each mech was sent."""

    place: Tensor  # [B, N, 2] vox
    is_sent: Tensor  # [B, N] bool, whether it was
    reach: Tensor  # [B, N] vox, how near is near enough


class Way(NamedTuple):
    """How each mech walks to a place, around walls."""

    step: Tensor  # [B, N, 2] unit vector, 0 where it is near enough
    left_vox: Tensor  # [B, N] until it is near enough


def destination(state: State, game: SimModel) -> Destination:
    """Where each mech was sent."""
    orders, reach_vox = state.orders_heard, game.config.command.reach_vox
    kind, target = orders[..., OrderField.KIND], orders[..., OrderField.TARGET].long()
    goal = orders[..., PLACE]

    is_known = game.roster.of_own_team(known_enemies(state, game))  # [B, N, N]
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


def way_there(state: State, sent: Destination, game: SimModel) -> Way:
    """The way of each mech to `sent.place`: along the field of the map until it ends, then straight on."""
    pos, config = state.mechs.pos[..., :2], game.config
    offset = sent.place - pos
    distance = length(offset)
    step, walk = way_at(game.maps.ways, state.map_id, pos, sent.place, config)
    step = torch.where((step != 0).any(-1, keepdim=True), step, unit(offset))
    remaining = torch.maximum(distance, walk + goal_radius(config)) - sent.reach
    is_near = distance < sent.reach
    return Way(torch.where(is_near[..., None], 0.0, step), torch.where(is_near, 0.0, remaining.clamp_min(0)))


def order(state: State, sent: Destination, way: Way, game: SimModel) -> Tensor:
    """`[B, N, F]` one row of `layout.ORDER` for each mech; zero for the dead and for who was told nothing."""
    orders, mechs = state.orders_heard, state.mechs
    is_sent, facing, longest = sent.is_sent, heading(mechs.yaw), game.config.world.longest_side
    kind = orders[..., OrderField.KIND, None]
    offset = sent.place - mechs.pos[..., :2]
    kinds = torch.arange(1, len(OrderKind), device=kind.device)
    disciplines = torch.arange(1, len(Discipline), device=kind.device)
    age_s = (state.tick[:, None] - orders[..., OrderField.ISSUED]) * game.rules.dt_s
    pace = dot(mechs.vel[..., :2].unbind(-1), way.step.unbind(-1))
    has_reached = is_sent & (length(offset) < sent.reach)
    values = {
        "kind": kind == kinds,
        "vector": exact.divide(to_body(offset, facing), longest) * is_sent[..., None],
        "way": to_body(way.step, facing).clamp(-1, 1) * is_sent[..., None],
        "way_length": exact.divide(way.left_vox, longest).clamp_max(4.0) * is_sent,
        "reach": exact.divide(sent.reach, longest) * is_sent,
        "has_target": orders[..., OrderField.TARGET] >= 0,
        "urgency": orders[..., OrderField.URGENCY],
        "discipline": orders[..., OrderField.DISCIPLINE, None] == disciplines,
        "age": exact.divide(age_s, LONGEST_AGE_S).clamp_max(1.0),
        "reached": has_reached,
        "following": (pace / game.roster.max_speed).clamp(-1, 1) * (is_sent & ~has_reached),
    }
    return layout.pack(layout.ORDER, values, mechs.alive & (orders[..., OrderField.ISSUED] >= 0))


def steered(state: State, ego: Tensor, sent: Destination, way: Way, game: SimModel) -> Tensor:
    """`[B, N, F]` the ego stream with the zone's columns telling of the place for those that were sent to one."""
    mechs, longest = state.mechs, game.config.world.longest_side
    offset, facing = sent.place - mechs.pos[..., :2], heading(mechs.yaw)
    values = {
        "in_zone": (length(offset) < sent.reach).to(ego.dtype)[..., None],
        "zone_vector": exact.divide(to_body(offset, facing), longest),
        "zone_radius": exact.divide(sent.reach, longest)[..., None],
        "path_direction": to_body(way.step, facing).clamp(-1, 1),
        "path_length": exact.divide(way.left_vox, longest).clamp_max(4.0)[..., None],
    }
    steered = ego.clone()
    for name, value in values.items():
        columns = layout.columns(layout.EGO, name)
        steered[..., columns] = torch.where(sent.is_sent[..., None], value, ego[..., columns])
    return steered
