"""What every mech observes: its contacts, its comrades, itself, its pack's messages, and the ground around it."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env import layout
from echelon.env.contacts import SPEED_SCALE, contact_slots, contacts, hostile_slots
from echelon.env.sensing import Senses, hear, perceive
from echelon.env.squad import squad
from echelon.env.zone import is_inside, path_length
from echelon.rules.actions import NO_MECH, SORT_MODES, Orders
from echelon.rules.catalog import Hull
from echelon.runtime.compile import axes, settle
from echelon.runtime.geometry import heading, to_body
from echelon.sim.ewar import BEST_QUALITY
from echelon.sim.game import Game
from echelon.sim.heat import is_running, is_shut_down
from echelon.sim.terrain import at_cells, columns_at, height_bits
from echelon.state import State

CRITICAL_HEAT = 0.85
TARGETED_VOX = 8.0

Observation = dict[str, Tensor]
"""Streams of all mechs, `[B, N, ...]` each."""


def build(state: State, orders: Orders, game: Game) -> tuple[State, Observation]:
    """The observation of every mech, and the state with the contact slots it showed.

    Args:
        orders: the last decision's, for the chosen order of the contacts, the emitters and the focus targets.

    Returns:
        The streams `contacts [B, N, C, F]`, `contacts_mask [B, N, C]`, `squad [B, N, S, F]`, `squad_mask [B, N, S]`,
        `ego [B, N, F]`, `comms [B, N, 5, comm_dim]` and `local_map [B, N, 11, 11]`; and for those who watch, not for
        mechs, `contact_mechs [B, N, C]` int64, who is shown in each contact slot or `NO_MECH`, and
        `clear_lines [B, N, N]` bool.
    """
    senses = perceive(state, orders, game)
    slots, filled = contact_slots(senses, state, orders, game)
    comrades, held = squad(state, orders, game)
    streams = {
        "contacts": contacts(slots, filled, senses, state, game),
        "contacts_mask": filled,
        "squad": comrades,
        "squad_mask": held,
        "ego": ego(senses, state, orders, game),
        "comms": comms(state, game),
        "local_map": local_map(state, game),
        "contact_mechs": torch.where(filled, slots, NO_MECH),
        "clear_lines": senses.line,
    }
    return state.replace(focus_slots=hostile_slots(slots, filled, game)), streams


def is_targeted(senses: Senses, state: State, game: Game) -> Tensor:
    """`[B, N]` bool: a living enemy within `TARGETED_VOX` has a clear line."""
    enemy = game.roster.hostile & state.mechs.alive[:, None]
    return (enemy & senses.line & (senses.distance <= TARGETED_VOX)).any(-1)


def is_missiles_target(state: State, game: Game) -> Tensor:
    """`[B, N]` bool: a missile in flight homes on the mech."""
    shots = state.shots
    target = torch.where(game.roster.homing & (shots.ttl > 0), shots.target, NO_MECH)
    everyone = torch.arange(game.roster.num_mechs, device=target.device)
    return (target[:, None] == everyone[:, None]).any(-1)


def ego(senses: Senses, state: State, orders: Orders, game: Game) -> Tensor:
    """`[B, N, F]` one row of `layout.EGO` for each mech; the dead show `layout.OF_THE_DEAD` only."""
    rules, mechs, roster, maps = game.rules, state.mechs, game.roster, game.maps
    longest = game.config.world.longest_side
    facing = heading(mechs.yaw)
    heat = mechs.heat / roster.heat_cap
    shut_down, runs = is_shut_down(mechs, game), is_running(mechs, game)
    to_zone = maps.zone_center[state.map_id][:, None] - mechs.pos[..., :2]
    cell = mechs.pos.floor().long()
    path = at_cells(maps.path_direction, state.map_id, cell[..., 0], cell[..., 1])
    velocity = torch.cat((to_body(mechs.vel[..., :2], facing), mechs.vel[..., 2:]), -1) / SPEED_SCALE
    score = state.score / rules.zone_score_to_win_s
    lead = roster.of_own_team(state.control) - roster.of_enemy_team(state.control)
    values = {
        "hull": roster.hull_one_hot.expand(*heat.shape, len(Hull)),
        "alive": mechs.alive,
        "position": mechs.pos / game.size,
        "yaw_sin_cos": facing.flip(-1),
        "hp": mechs.hp / roster.hp,
        "leg_hp": mechs.leg_hp / roster.leg_hp,
        "heat": heat,
        "headroom": 1 - heat,
        "stability_risk": 1 - mechs.stability / rules.stability_cap,
        "velocity": torch.where(shut_down[..., None], 0.0, velocity),
        "cooldown": mechs.cooldown / roster.longest_cooldown.clamp_min(1),
        "targeted": is_targeted(senses, state, game),
        "under_fire": mechs.under_fire > 0,
        "painted": (mechs.paint > 0).any(-1),
        "shut_down": shut_down,
        "critical_heat": heat > CRITICAL_HEAT,
        "incoming_missile": is_missiles_target(state, game),
        "suppressed": mechs.suppressed > 0,
        "ecm": orders.ecm & runs,
        "eccm": orders.eccm & runs,
        "hit_from": to_body(mechs.hit_from, facing).clamp(-1, 1),
        "sensor_quality": senses.sensors.quality / BEST_QUALITY,
        "jam": senses.sensors.jam,
        "acoustics": hear(senses, state, game),
        "in_zone": is_inside(state, game),
        "zone_vector": to_body(to_zone, facing) / longest,
        "zone_radius": (maps.zone_radius[state.map_id] / longest)[:, None].expand_as(heat),
        "path_direction": to_body(path, facing).clamp(-1, 1),
        "path_length": path_length(state, game).clamp_max(4.0),
        "own_score": roster.of_own_team(score).clamp_max(1.0),
        "enemy_score": roster.of_enemy_team(score).clamp_max(1.0),
        "control": lead,
        "time": (state.tick / (rules.max_decisions * rules.decision_repeat))[:, None].expand_as(heat),
        "sort_mode": orders.sort_mode[..., None] == torch.arange(SORT_MODES, device=heat.device),
        "hostile_only": orders.hostile_only,
        "suite": roster.cockpits.descriptor.expand(*heat.shape, -1),
    }
    return layout.pack(layout.EGO, values, mechs.alive, always=layout.OF_THE_DEAD)


def comms(state: State, game: Game) -> Tensor:
    """`[B, N, 5, comm_dim]` what each packmate said in the last decision; one's own row and the dead are zero."""
    messages, roster = state.messages, game.roster
    nobody = torch.zeros_like(messages[:, :1])
    heard = torch.cat((messages, nobody), 1)[:, roster.pack_slot]  # [B, N, 5, comm_dim]
    own = roster.pack_slot == torch.arange(roster.num_mechs, device=messages.device)[:, None]
    listens = state.mechs.alive[:, :, None] & ~own
    return heard * listens[..., None]


def local_map(state: State, game: Game) -> Tensor:
    """`[B, N, 11, 11]` 1 where a voxel at hull height is solid or the map ends; rows ahead, columns to the left."""
    mechs, world = state.mechs, game.config.world
    side = layout.LOCAL_MAP_CELLS
    reach = torch.arange(side, device=mechs.yaw.device, dtype=mechs.pos.dtype) - side // 2
    # What is the same for many cells is worked out once.
    ahead, left = settle(reach.repeat_interleave(side)), settle(reach.repeat(side))
    own_x, own_y, _ = (at[..., None] for at in mechs.pos.unbind(-1))
    c, s = (at[..., None] for at in axes(heading(mechs.yaw)))
    hull = settle(height_bits(mechs.pos, game.roster.half_size))[..., None]
    x = (own_x + (ahead * c - left * s)).floor().int()  # [B, N, 121]
    y = (own_y + (ahead * s + left * c)).floor().int()
    outside = (x < 0) | (x >= world.size_x) | (y < 0) | (y >= world.size_y)
    solid = columns_at(state.terrain.solid, x, y)
    blocked = outside | ((solid & hull) != 0)
    return (blocked & mechs.alive[..., None]).float().unflatten(-1, (side, side))
