"""The zone: which mechs are inside, which team controls it, and the score for control."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.runtime.geometry import dot, length
from echelon.sim.model import SimModel
from echelon.sim.terrain import at_cells
from echelon.state import State


def zones(state: State, sim_model: SimModel) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return centre `[B, 2]` and radius `[B]`, vox, of each battle's first and second zone; a missing zone has
    radius 0."""
    maps, map_id = sim_model.maps, state.map_id
    second = maps.second_center[map_id], maps.second_radius[map_id]
    return (maps.zone_center[map_id], maps.zone_radius[map_id]), second


def in_each_zone(state: State, sim_model: SimModel) -> list[Tensor]:
    """Return for each zone which mechs are alive, within the zone's circle, and low enough to count for control,
    `[B, N]` bool."""
    x, y, z = state.mechs.pos.unbind(-1)
    may_hold = state.mechs.alive & (z - sim_model.roster.half_size[:, 2] < sim_model.rules.zone_ceiling_vox)

    def is_within(center: Tensor, radius: Tensor) -> Tensor:
        offset = x - center[:, :1], y - center[:, 1:]
        return exact.sqrt(dot(offset, offset)) < radius[:, None]

    return [may_hold & is_within(*zone) for zone in zones(state, sim_model)]


def is_inside(state: State, sim_model: SimModel) -> Tensor:
    """Return which mechs are inside a zone, `[B, N]` bool."""
    in_first, in_second = in_each_zone(state, sim_model)
    return in_first | in_second


def nearer(state: State, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Return the vector `[B, N, 2]` to the centre of the zone whose edge is nearer, and that zone's radius `[B, N]`,
    vox."""
    (center, radius), (other_center, other_radius) = zones(state, sim_model)
    pos = state.mechs.pos[..., :2]
    to_first, to_second = center[:, None] - pos, other_center[:, None] - pos
    radius, other_radius = radius[:, None], other_radius[:, None]
    is_second = (other_radius > 0) & (length(to_second) - other_radius < length(to_first) - radius)
    return torch.where(is_second[..., None], to_second, to_first), torch.where(is_second, other_radius, radius)


def path_length(state: State, sim_model: SimModel) -> Tensor:
    """Return each mech's walking distance to the zone's edge, divided by the map's longest side, `[B, N]`."""
    # `long()` rounds towards zero. It differs from `floor` only for negative positions, which are outside the map.
    x, y, _ = state.mechs.pos.unbind(-1)
    vox = at_cells(sim_model.maps.path_length, state.map_id, x.long(), y.long())
    return exact.divide(vox, sim_model.config.world.longest_side)


def control(inside: Tensor, sim_model: SimModel) -> Tensor:
    """Return how far each team controls the zone (its zone tick), `[B, 2]` in 0..1, from the tonnage of the living
    mechs `inside [B, N]`."""
    tonnage = sim_model.roster.by_team(inside * sim_model.roster.tonnage)  # [B, 2]
    enemy = tonnage.flip(1)
    margin = (tonnage - enemy) / (tonnage + enemy).clamp_min(1.0)
    minimum = sim_model.rules.contested_share
    shared = minimum + (1 - minimum) * margin.clamp_min(0.0)
    present, contested = tonnage > 0, (tonnage > 0) & (enemy > 0)
    return torch.where(contested, shared, present.to(tonnage.dtype))


def score(state: State, sim_model: SimModel) -> State:
    """Add the zone control of one decision to each team's score. With two zones, each zone counts half.

    Control is 0 in battles in which zone control gives no points.
    """
    in_first, in_second = in_each_zone(state, sim_model)
    inside, tick = in_first | in_second, control(in_first, sim_model)
    tick = torch.where(
        sim_model.maps.second_radius[state.map_id, None] > 0, (tick + control(in_second, sim_model)) * 0.5, tick
    )
    rate, seconds = sim_model.maps.control_rate[state.map_id], sim_model.rules.decision_s
    tick = torch.where((rate > 0).any(1, keepdim=True), tick, 0.0)
    return state.replace(
        score=state.score + tick * seconds * rate,
        control=tick,
        tally=state.tally.replace(zone_s=state.tally.zone_s + inside.float() * seconds),
    )
