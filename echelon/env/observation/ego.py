"""What a mech observes of itself: its body, what threatens it, what it hears, the zone and the clock."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.objectives.zone import is_inside, nearer, path_length
from echelon.env.observation import layout
from echelon.env.observation.contacts import SPEED_SCALE
from echelon.env.observation.sensing import Senses, hear
from echelon.rules.actions import NO_MECH, SORT_MODES, Orders
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.runtime.geometry import heading, to_body, unit
from echelon.sim.heat import is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.sim.terrain import at_cells
from echelon.state import State

CRITICAL_HEAT = 0.85
TARGETED_VOX = 8.0


def ego(senses: Senses, state: State, orders: Orders, game: SimModel) -> Tensor:
    """`[B, N, F]` one row of `layout.EGO` for each mech; the dead show `layout.OF_THE_DEAD` only."""
    values = {
        **body(state, game),
        **threats(senses, state, game),
        **zone_and_clock(state, game),
        **settings(senses, state, orders, game),
    }
    return layout.pack(layout.EGO, values, state.mechs.alive, always=layout.OF_THE_DEAD)


def body(state: State, game: SimModel) -> dict[str, Tensor]:
    """Columns of `layout.EGO`, `[B, N]` or `[B, N, width]` each: hull, place, motion, health, heat, cooldowns."""
    mechs, roster = state.mechs, game.roster
    facing, heat = heading(mechs.yaw), mechs.heat / roster.heat_cap
    shut_down = is_shut_down(mechs, game)
    velocity = torch.cat((to_body(mechs.vel[..., :2], facing), mechs.vel[..., 2:]), -1)
    velocity = exact.divide(velocity, SPEED_SCALE)
    return {
        "hull": roster.hull_one_hot.expand(*heat.shape, len(Hull)),
        "alive": mechs.alive,
        "position": mechs.pos / game.size,
        "yaw_sin_cos": facing.flip(-1),
        "hp": mechs.hp / roster.hp,
        "leg_hp": mechs.leg_hp / roster.leg_hp,
        "heat": heat,
        "headroom": 1 - heat,
        "critical_heat": heat > CRITICAL_HEAT,
        "shut_down": shut_down,
        "stability_risk": 1 - exact.divide(mechs.stability, game.rules.stability_cap),
        "velocity": torch.where(shut_down[..., None], 0.0, velocity),
        "cooldown": cooldowns(state, game),
    }


def cooldowns(state: State, game: SimModel) -> Tensor:
    """`[B, N, 5]` what the weapon on each trigger, and the AMS, wait for: shares of the longest; 0 where nothing is."""
    roster = game.roster
    shares = torch.nn.functional.pad(state.mechs.cooldown.float() / roster.longest_cooldown.clamp_min(1), (0, 1))
    return shares.gather(-1, roster.shown_timer.expand(shares.shape[0], -1, -1))


def threats(senses: Senses, state: State, game: SimModel) -> dict[str, Tensor]:
    """Columns: who aims at the mech, what hit it and from where, and what it hears."""
    mechs = state.mechs
    return {
        "targeted": is_targeted(senses, state, game),
        "under_fire": mechs.under_fire > 0,
        "painted": (mechs.paint > 0).any(-1),
        "incoming_missile": is_missiles_target(state, game),
        "suppressed": mechs.suppressed > 0,
        "hit_from": to_body(mechs.hit_from, heading(mechs.yaw)).clamp(-1, 1),
        "acoustics": hear(senses, state, game),
    }


def zone_and_clock(state: State, game: SimModel) -> dict[str, Tensor]:
    """Columns: where the zone lies and the way there, both scores, who controls it, and the time."""
    rules, mechs, roster, maps = game.rules, state.mechs, game.roster, game.maps
    longest, facing = game.config.world.longest_side, heading(mechs.yaw)
    to_zone, radius = nearer(state, game)
    cell = mechs.pos.floor().long()
    path = at_cells(maps.path_direction, state.map_id, cell[..., 0], cell[..., 1])
    inside = is_inside(state, game)
    # A cell on the zone's edge is the end of every path, but a mech there may still be outside.
    at_edge = ~inside & (path == 0).all(-1)
    path = torch.where(at_edge[..., None], unit(to_zone), path)
    score = exact.divide(state.score, rules.zone_score_to_win_s)
    last_tick = rules.max_decisions * rules.decision_repeat
    return {
        "in_zone": inside,
        "zone_vector": exact.divide(to_body(to_zone, facing), longest),
        "zone_radius": exact.divide(radius, longest),
        "path_direction": to_body(path, facing).clamp(-1, 1),
        "path_length": path_length(state, game).clamp_max(4.0),
        "own_score": roster.of_own_team(score).clamp_max(1.0),
        "enemy_score": roster.of_enemy_team(score).clamp_max(1.0),
        "control": roster.of_own_team(state.control) - roster.of_enemy_team(state.control),
        "time": exact.divide(state.tick.float(), last_tick)[:, None].expand_as(mechs.yaw),
    }


def settings(senses: Senses, state: State, orders: Orders, game: SimModel) -> dict[str, Tensor]:
    """Columns: the mech's suite, its sensors, whether they are jammed, and how it has set them."""
    runs, roster = is_running(state.mechs, game), game.roster
    return {
        "ecm": orders.ecm & runs,
        "eccm": orders.eccm & runs,
        "sensor_quality": exact.divide(senses.sensors.quality, game.rules.best_quality),
        "jam": senses.sensors.jam,
        "sort_mode": orders.sort_mode[..., None] == torch.arange(SORT_MODES, device=runs.device),
        "hostile_only": orders.hostile_only,
        "suite": roster.cockpits.descriptor.expand(*runs.shape, -1),
    }


def is_targeted(senses: Senses, state: State, game: SimModel) -> Tensor:
    """`[B, N]` bool: a living enemy within `TARGETED_VOX` has a clear line."""
    enemy = game.roster.hostile & state.mechs.alive[:, None]
    return (enemy & senses.line & (senses.distance <= TARGETED_VOX)).any(-1)


def is_missiles_target(state: State, game: SimModel) -> Tensor:
    """`[B, N]` bool: a shot in flight homes on the mech."""
    shots = state.shots
    target = torch.where(game.roster.homing & (shots.ttl > 0), shots.target, NO_MECH)
    indices = torch.arange(game.roster.num_mechs, device=target.device)
    return (target[:, None] == indices[:, None]).any(-1)
