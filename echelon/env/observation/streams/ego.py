"""A mech's observation of itself: body, threats, sounds, the zone and the clock."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.objectives.zone import is_inside, nearer, path_length
from echelon.env.observation.features import (
    AHEAD_LEFT,
    AHEAD_LEFT_UP,
    BEST_QUALITY,
    FULL,
    HULLS,
    MAP_SIDE,
    SIN_COS,
    SORTS,
    SPEED_SCALE,
    TEN_VOX_PER_S,
    Feature,
    flag,
    pack,
)
from echelon.env.observation.sensing import Senses, sense_sound
from echelon.env.observation.stream import Stream, StreamInputs
from echelon.rules.actions import NO_MECH, SORT_MODES, Orders
from echelon.rules.catalog import Hull, Suite, Trigger
from echelon.rules.roster import SUITE_DESCRIPTOR
from echelon.runtime import exact
from echelon.runtime.geometry import heading, to_body, unit
from echelon.sim.heat import is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.sim.terrain import at_cells
from echelon.state import State

CRITICAL_HEAT = 0.85
TARGETED_VOX = 8.0
COOLDOWNS = len(Trigger) + 1
"""Number of cooldowns shown: four triggers and the AMS."""

EGO = (
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("alive"),
    Feature("position", 3, 0.0, 1.0, "size of the map", "along each axis of the map", ("x", "y", "z")),
    Feature("yaw_sin_cos", 2, -1.0, 1.0, "", "its heading", SIN_COS),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points"),
    Feature("leg_hp", 1, 0.0, 1.0, FULL, "hit points of the legs"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "above 1 it shuts down"),
    Feature("headroom", 1, -1.0, 1.0, "heat capacity", "1 - heat"),
    Feature("stability_risk", 1, 0.0, 1.0, FULL, "1 - stability; at 1 it falls"),
    Feature("velocity", 3, -3.0, 3.0, TEN_VOX_PER_S, "in its body frame; 0 while shut down", AHEAD_LEFT_UP),
    Feature(
        "cooldown", COOLDOWNS, 0.0, 1.0, "longest of its timer",
        "time until the weapon on this trigger, or the AMS, is ready",
        (*(trigger.name.lower() for trigger in Trigger), "ams"),
    ),
    flag("targeted", "an enemy within 8 vox has a clear line"),
    flag("under_fire", "hit within the last second"),
    flag("painted", "by an enemy pack"),
    flag("shut_down", "overheated: no control"),
    flag("critical_heat", "heat above 0.85"),
    flag("incoming_missile", "a shot in flight homes on it"),
    flag("suppressed", "stability recovers more slowly"),
    flag("ecm", "its emitter jams", "ewar"),
    flag("eccm", "its emitter clears its team's sensors", "ewar"),
    Feature("hit_from", 2, -1.0, 1.0, "", "unit vector towards the source of the last hit, body frame", AHEAD_LEFT),
    Feature("sensor_quality", 1, 0.0, 1.0, BEST_QUALITY, "factor on its radar range"),
    Feature("jam", 1, 0.0, 1.0, "full strength", "strength of the strongest enemy ECM at its position", (), ("ewar",)),
    Feature("acoustics", 4, 0.0, 2.0, "", "noise heard: log(1 + sum) / 5", ("ahead", "left", "behind", "right")),
    flag("in_zone"),
    Feature("zone_vector", 2, -1.5, 1.5, MAP_SIDE, "to the centre of the zone, in its body frame", AHEAD_LEFT),
    Feature("zone_radius", 1, 0.0, 1.0, MAP_SIDE),
    Feature("path_direction", 2, -1.0, 1.0, "", "direction of the walking path to the zone, body frame", AHEAD_LEFT),
    Feature("path_length", 1, 0.0, 4.0, MAP_SIDE, "walking distance to the zone, clipped"),
    Feature("own_score", 1, 0.0, 1.0, "score that wins", "of its team; visible to dead mechs too"),
    Feature("enemy_score", 1, 0.0, 1.0, "score that wins", "of the other team; visible to dead mechs too"),
    Feature("control", 1, -1.0, 1.0, "", "zone tick of its team minus the other team's; visible to dead mechs too"),
    Feature("time", 1, 0.0, 1.0, "longest battle", "since the battle began; visible to dead mechs too"),
    Feature(
        "sort_mode", SORT_MODES, 0.0, 1.0, "one-hot", "order of the contacts",
        SORTS, ("observation_control",), SORTS[:1],
    ),
    flag("hostile_only", "contacts are of the other team only", "observation_control"),
    Feature(
        "suite", SUITE_DESCRIPTOR, 0.0, 1.0, "", "its suite as one-hot, then the suite's properties scaled to 0..1",
        (*(suite.name.lower() for suite in Suite), "visual_slots", "sensor_factor", "fidelity", "squad_detail",
         "sees_engaged", "issues_orders", "contact_reports", "many_intel_slots"),
        ("suites",),
    ),
)  # fmt: skip
OF_THE_DEAD = ("own_score", "enemy_score", "control", "time")
"""Ego features that are not zeroed for dead mechs."""


def ego(inputs: StreamInputs) -> Tensor:
    """Return the stream `[B, N, F]`, with a row of `EGO` columns per mech; for dead mechs, only the columns
    `OF_THE_DEAD` are nonzero."""
    state, orders, sim_model, senses = inputs.state, inputs.orders, inputs.sim_model, inputs.senses
    values = {
        **body(state, sim_model),
        **threats(senses, state, sim_model),
        **zone_and_clock(state, sim_model),
        **settings(senses, state, orders, sim_model),
    }
    return pack(EGO, values, state.mechs.alive, always=OF_THE_DEAD)


def body(state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `EGO`, `[B, N]` or `[B, N, width]` each: hull, position, motion, health, heat, cooldowns."""
    mechs, roster = state.mechs, sim_model.roster
    facing, heat = heading(mechs.yaw), mechs.heat / roster.heat_cap
    shut_down = is_shut_down(mechs, sim_model)
    velocity = torch.cat((to_body(mechs.vel[..., :2], facing), mechs.vel[..., 2:]), -1)
    velocity = exact.divide(velocity, SPEED_SCALE)
    return {
        "hull": roster.hull_one_hot.expand(*heat.shape, len(Hull)),
        "alive": mechs.alive,
        "position": mechs.pos / sim_model.size,
        "yaw_sin_cos": facing.flip(-1),
        "hp": mechs.hp / roster.hp,
        "leg_hp": mechs.leg_hp / roster.leg_hp,
        "heat": heat,
        "headroom": 1 - heat,
        "critical_heat": heat > CRITICAL_HEAT,
        "shut_down": shut_down,
        "stability_risk": 1 - exact.divide(mechs.stability, sim_model.rules.stability_cap),
        "velocity": torch.where(shut_down[..., None], 0.0, velocity),
        "cooldown": cooldowns(state, sim_model),
    }


def cooldowns(state: State, sim_model: SimModel) -> Tensor:
    """Return the remaining cooldowns of the four triggers and of the AMS (anti-missile system), `[B, N, 5]`, each
    divided by the longest cooldown of its timer; 0 without a weapon."""
    roster = sim_model.roster
    shares = torch.nn.functional.pad(state.mechs.cooldown.float() / roster.longest_cooldown.clamp_min(1), (0, 1))
    return shares.gather(-1, roster.shown_timer.expand(shares.shape[0], -1, -1))


def threats(senses: Senses, state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `EGO`: whether enemies target the mech, hits and their direction, and sounds."""
    mechs = state.mechs
    return {
        "targeted": is_targeted(senses, state, sim_model),
        "under_fire": mechs.under_fire > 0,
        "painted": (mechs.paint > 0).any(-1),
        "incoming_missile": is_missiles_target(state, sim_model),
        "suppressed": mechs.suppressed > 0,
        "hit_from": to_body(mechs.hit_from, heading(mechs.yaw)).clamp(-1, 1),
        "acoustics": sense_sound(senses, state, sim_model),
    }


def zone_and_clock(state: State, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `EGO`: position of the zone, the path to it, scores, control and time."""
    rules, mechs, roster, maps = sim_model.rules, state.mechs, sim_model.roster, sim_model.maps
    longest, facing = sim_model.config.world.longest_side, heading(mechs.yaw)
    to_zone, radius = nearer(state, sim_model)
    cell = mechs.pos.floor().long()
    path = at_cells(maps.path_direction, state.map_id, cell[..., 0], cell[..., 1])
    inside = is_inside(state, sim_model)
    # Every path ends at a cell on the zone's edge, but a mech in that cell may still be outside the zone.
    at_edge = ~inside & (path == 0).all(-1)
    path = torch.where(at_edge[..., None], unit(to_zone), path)
    score = exact.divide(state.score, rules.zone_score_to_win_s)
    return {
        "in_zone": inside,
        "zone_vector": exact.divide(to_body(to_zone, facing), longest),
        "zone_radius": exact.divide(radius, longest),
        "path_direction": to_body(path, facing).clamp(-1, 1),
        "path_length": path_length(state, sim_model).clamp_max(4.0),
        "own_score": roster.of_own_team(score).clamp_max(1.0),
        "enemy_score": roster.of_enemy_team(score).clamp_max(1.0),
        "control": roster.of_own_team(state.control) - roster.of_enemy_team(state.control),
        "time": exact.divide(state.tick.float(), maps.last_tick[state.map_id])[:, None].expand_as(mechs.yaw),
    }


def settings(senses: Senses, state: State, orders: Orders, sim_model: SimModel) -> dict[str, Tensor]:
    """Return columns of `EGO`: the cockpit suite, the sensors, jamming, and the settings that the mech chose."""
    runs, roster = is_running(state.mechs, sim_model), sim_model.roster
    return {
        "ecm": orders.ecm & runs,
        "eccm": orders.eccm & runs,
        "sensor_quality": exact.divide(senses.sensors.quality, sim_model.rules.best_quality),
        "jam": senses.sensors.jam,
        "sort_mode": orders.sort_mode[..., None] == torch.arange(SORT_MODES, device=runs.device),
        "hostile_only": orders.hostile_only,
        "suite": roster.cockpits.descriptor.expand(*runs.shape, -1),
    }


def is_targeted(senses: Senses, state: State, sim_model: SimModel) -> Tensor:
    """Return whether a living enemy within `TARGETED_VOX` has a clear line to each mech, `[B, N]` bool."""
    enemy = sim_model.roster.hostile & state.mechs.alive[:, None]
    return (enemy & senses.line & (senses.distance <= TARGETED_VOX)).any(-1)


def is_missiles_target(state: State, sim_model: SimModel) -> Tensor:
    """Return whether a shot in flight is guided towards each mech, `[B, N]` bool."""
    shots = state.shots
    target = torch.where(sim_model.roster.homing & (shots.ttl > 0), shots.target, NO_MECH)
    indices = torch.arange(sim_model.roster.num_mechs, device=target.device)
    return (target[:, None] == indices[:, None]).any(-1)


STREAM = Stream(name="ego", features=EGO, dense=ego)
