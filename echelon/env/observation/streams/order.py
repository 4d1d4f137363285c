"""The order that each mech has received, if `EnvConfig.command` is enabled. The order's place replaces the zone in
the stream `ego`."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.features import AHEAD_LEFT, MAP_SIDE, Feature, columns, flag, pack
from echelon.env.observation.stream import Stream
from echelon.env.observation.streams.ego import EGO
from echelon.env.orders.destination import Destination, Way, destination, way_there
from echelon.rules.orders import Discipline, OrderField, OrderKind
from echelon.runtime import exact
from echelon.runtime.geometry import dot, heading, length, to_body
from echelon.sim.model import SimModel
from echelon.state import State

LONGEST_AGE_S = 60.0

ORDER = (
    Feature("kind", len(OrderKind) - 1, 0.0, 1.0, "one-hot", "order to its pack that it received last; all 0 for free",
            tuple(kind.name.lower() for kind in OrderKind if kind)),
    Feature("vector", 2, -1.5, 1.5, MAP_SIDE, "to the place of the order, in its body frame", AHEAD_LEFT),
    Feature("way", 2, -1.0, 1.0, "", "direction of the walking path there, in its body frame", AHEAD_LEFT),
    Feature("way_length", 1, 0.0, 4.0, MAP_SIDE, "walking distance until it is near enough, clipped"),
    Feature("reach", 1, 0.0, 32.0, MAP_SIDE, "distance at which the place counts as reached"),
    flag("has_target", "the order names an enemy"),
    Feature("urgency", 1, 0.0, 1.0),
    Feature("discipline", len(Discipline) - 1, 0.0, 1.0, "one-hot", "when to fire; all 0 for fire at will",
            tuple(d.name.lower() for d in Discipline if d)),
    Feature("age", 1, 0.0, 1.0, "60 s", "since the order was given, clipped"),
    flag("reached", "the place of the order is reached"),
    Feature("following", 1, -1.0, 1.0, "top speed", "speed along that path until the place is reached"),
)  # fmt: skip


def add_orders(state: State, streams: dict[str, Tensor], sim_model: SimModel) -> dict[str, Tensor]:
    """Return `streams` with `order [B, N, F]` added; if orders steer mechs, the order's place replaces the zone in
    `ego`.

    Args:
        state: state of B battles.
        streams: streams that `observe` computed, `[B, N, ...]` each; `ego` is not modified in place.
        sim_model: rules, roster and maps.
    """
    goal = destination(state, sim_model)
    way = way_there(state, goal, sim_model)
    streams = {**streams, "order": order(state, goal, way, sim_model)}
    if sim_model.config.command.steers:
        streams["ego"] = with_ordered_place(state, streams["ego"], goal, way, sim_model)
    return streams


def order(state: State, sent: Destination, way: Way, sim_model: SimModel) -> Tensor:
    """Return the stream `[B, N, F]`, with a row of `ORDER` columns per mech; zero for dead mechs and for mechs
    without an order."""
    orders, mechs = state.orders_heard, state.mechs
    is_sent, facing, longest = sent.is_sent, heading(mechs.yaw), sim_model.config.world.longest_side
    kind = orders[..., OrderField.KIND, None]
    offset = sent.place - mechs.pos[..., :2]
    kinds = torch.arange(1, len(OrderKind), device=kind.device)
    disciplines = torch.arange(1, len(Discipline), device=kind.device)
    age_s = (state.tick[:, None] - orders[..., OrderField.ISSUED]) * sim_model.rules.dt_s
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
        "following": (pace / sim_model.roster.max_speed).clamp(-1, 1) * (is_sent & ~has_reached),
    }
    return pack(ORDER, values, mechs.alive & (orders[..., OrderField.ISSUED] >= 0))


def with_ordered_place(state: State, ego: Tensor, sent: Destination, way: Way, sim_model: SimModel) -> Tensor:
    """Return the ego stream `[B, N, F]`, where the order's place replaces the zone for mechs that were sent to a
    place."""
    mechs, longest = state.mechs, sim_model.config.world.longest_side
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
        at = columns(EGO, name)
        steered[..., at] = torch.where(sent.is_sent[..., None], value, ego[..., at])
    return steered


STREAM = Stream(name="order", features=ORDER, add=add_orders, is_on=lambda config: config.command.enabled)
