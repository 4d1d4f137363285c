"""What every mech observes: its contacts, itself, its pack's messages, and the ground around it."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.actions import NO_MECH, PREFERENCES, SORT_MODES, Orders
from echelon.catalog import Hull
from echelon.env import layout
from echelon.env.zone import is_inside, path_length
from echelon.geometry import TINY, heading, length, pairwise_offset, to_body, to_world
from echelon.sim.game import Game
from echelon.sim.heat import is_shut_down
from echelon.sim.sight import all_lines, enemy_lines
from echelon.sim.terrain import at_cells, height_bits
from echelon.state import State

SPEED_SCALE = 10.0
"""Velocities are shown in tens of vox/s."""
BLOOM_HEAT = 0.8
"""A hostile hotter than this share of its capacity is seen through walls."""
CRITICAL_HEAT = 0.85
TARGETED_VOX = 8.0
BLIND_QUALITY = 0.25
"""Sensor quality of a mech that is shut down."""

Observation = dict[str, Tensor]
"""Streams of all mechs, `[B, N, ...]` each."""


def build(state: State, orders: Orders, game: Game) -> tuple[State, Observation]:
    """The observation of every mech, and the state with the contact slots it showed.

    Args:
        orders: the last decision's, for the chosen sort mode of the contacts.

    Returns:
        The streams `contacts [B, N, C, F]`, `contacts_mask [B, N, C]`, `ego [B, N, F]`, `comms [B, N, 5, comm_dim]`
        and `local_map [B, N, 11, 11]`.
    """
    offset = pairwise_offset(state.mechs.pos)  # [B, N, N, 3]
    distance = length(offset)
    sees, targeted = sensed(state, distance, game)
    slots, filled = contact_slots(sees, distance, state, orders, game)
    streams = {
        "contacts": contacts(slots, filled, state, game),
        "contacts_mask": filled,
        "ego": ego(targeted, state, orders, game),
        "comms": comms(state, game),
        "local_map": local_map(state, game),
    }
    return state.replace(focus_slots=hostile_slots(slots, filled, game)), streams


def sensed(state: State, distance: Tensor, game: Game) -> tuple[Tensor, Tensor]:
    """Who sees whom.

    Returns:
        `[B, N, N]` bool, viewer (row) sees mech (column), and `[B, N]` bool, an enemy close by has a line to it.
    """
    config, mechs, roster = game.config, state.mechs, game.roster
    alive = mechs.alive
    others = ~torch.eye(roster.num_mechs, dtype=torch.bool, device=distance.device)
    present = alive[:, :, None] & alive[:, None] & others
    is_hostile = roster.hostile & present
    if config.observation_mode == "full":
        line = enemy_lines(state, game, TARGETED_VOX)
        return present, (is_hostile & line).any(-1)

    line = all_lines(state, game, config.sight_range_vox)
    quality = torch.where(is_shut_down(mechs, game), BLIND_QUALITY, 1.0)
    on_radar = distance <= config.radar_range_vox * quality[..., None]
    blooms = (mechs.heat > BLOOM_HEAT * roster.heat_cap)[:, None] & roster.hostile
    targeted = (is_hostile & line & (distance <= TARGETED_VOX)).any(-1)
    return present & (on_radar | blooms | line), targeted


def contact_slots(sees: Tensor, distance: Tensor, state: State, orders: Orders, game: Game) -> tuple[Tensor, Tensor]:
    """Which mech fills each contact slot: hostiles in the chosen order, then friendlies by distance.

    Equals in the chosen order are told apart by distance, then by index.

    Returns:
        `[B, N, C]` int64 mech indices and `[B, N, C]` bool, whether the slot is filled.
    """
    mechs, roster = state.mechs, game.roster
    biggest = (1 - roster.tonnage / 100).expand_as(distance)
    most_damaged = (mechs.hp / roster.hp)[:, None].expand_as(distance)
    near = distance * 1e-6  # tells equals apart, and nothing else
    by_mode = torch.stack((near, biggest + near, most_damaged + near), -1)  # [B, N, N, SORT_MODES]
    chosen = by_mode.gather(-1, orders.sort_mode[..., None, None].expand(*distance.shape, 1)).squeeze(-1)

    wants_friends = ~orders.hostile_only[..., None]
    key = torch.where(roster.hostile, chosen, 10 + distance)
    shown = sees & (roster.hostile | wants_friends)
    key = torch.where(shown, key, torch.inf)
    count = min(roster.num_mechs - 1, layout.MAX_CONTACTS)
    slots = key.argsort(dim=-1, stable=True)[..., :count]
    return slots, shown.gather(-1, slots)


def hostile_slots(slots: Tensor, filled: Tensor, game: Game) -> Tensor:
    """`[B, N, PREFERENCES]` int64: the hostile behind each slot a target preference can name, or `NO_MECH`."""
    viewer_is_red = game.roster.is_red[:, None]
    is_hostile = filled & (game.roster.is_red[slots] != viewer_is_red)
    named = torch.where(is_hostile, slots, NO_MECH)[..., :PREFERENCES]
    missing = PREFERENCES - named.shape[-1]
    return torch.nn.functional.pad(named, (0, missing), value=NO_MECH)


def contacts(slots: Tensor, filled: Tensor, state: State, game: Game) -> Tensor:
    """`[B, N, C, F]` one row of `layout.CONTACT` for each filled slot, zero elsewhere."""
    mechs, roster = state.mechs, game.roster
    batch, count = mechs.yaw.shape
    facing = heading(mechs.yaw)
    table = torch.cat(
        (
            mechs.pos,
            mechs.vel,
            facing,
            torch.stack(
                (
                    mechs.hp / roster.hp,
                    mechs.heat / roster.heat_cap,
                    mechs.stability / game.rules.stability_cap,
                    (mechs.fallen > 0).to(mechs.hp.dtype),
                    mechs.legged.to(mechs.hp.dtype),
                    roster.is_red.to(mechs.hp.dtype).expand(batch, count),
                ),
                -1,
            ),
            roster.hull_one_hot.expand(batch, count, len(Hull)),
        ),
        -1,
    )  # [B, N, P]
    rows = table.gather(1, slots.flatten(1)[..., None].expand(-1, -1, table.shape[-1]))
    pos, vel, other_facing, body, other_hull = rows.view(*slots.shape, -1).split((3, 3, 2, 6, len(Hull)), -1)
    hp, heat, stability, fallen, legged, is_red = body.unbind(-1)
    hostile = is_red != roster.is_red[:, None].to(is_red.dtype)

    offset = pos - mechs.pos[:, :, None]
    motion = vel - mechs.vel[:, :, None]
    distance, speed = length(offset), length(motion)
    along = (offset * motion).sum(-1) / distance.clamp_min(TINY)  # vox/s, positive while parting
    moves = speed > TINY
    crossing = torch.where(moves, 1 - along.abs() / speed.clamp_min(TINY), 0.0).clamp_min(0.0)
    view = facing[:, :, None].expand_as(other_facing)
    ahead = to_body(other_facing, view)
    longest = max(game.config.world.size_x, game.config.world.size_y)
    values = {
        "rel_pos": torch.cat((to_body(offset[..., :2], view), offset[..., 2:]), -1) / longest,
        "rel_vel": torch.cat((to_body(motion[..., :2], view), motion[..., 2:]), -1) / SPEED_SCALE,
        "rel_yaw_sin_cos": ahead.flip(-1).clamp(-1, 1),
        "hp": hp,
        "heat": heat,
        "stability": stability,
        "fallen": fallen,
        "legged": legged,
        "friendly": ~hostile,
        "hostile": hostile,
        "hull": other_hull,
        "closing": (-along / SPEED_SCALE).clamp(-1, 1),
        "crossing": crossing,
    }
    return layout.pack(layout.CONTACT, values) * filled[..., None]


def ego(targeted: Tensor, state: State, orders: Orders, game: Game) -> Tensor:
    """`[B, N, F]` one row of `layout.EGO` for each mech; the dead show `layout.OF_THE_DEAD` only."""
    config, rules, mechs, roster, maps = game.config, game.rules, state.mechs, game.roster, game.maps
    world = config.world
    longest = max(world.size_x, world.size_y)
    facing = heading(mechs.yaw)
    heat = mechs.heat / roster.heat_cap
    shut_down = is_shut_down(mechs, game)
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
        "velocity": torch.where(shut_down[..., None], 0.0, velocity),
        "hp": mechs.hp / roster.hp,
        "leg_hp": mechs.leg_hp / roster.leg_hp,
        "heat": heat,
        "headroom": 1 - heat,
        "stability": mechs.stability / rules.stability_cap,
        "cooldown": mechs.cooldown / game.longest_cooldown,
        "shut_down": shut_down,
        "fallen": mechs.fallen > 0,
        "legged": mechs.legged,
        "critical_heat": heat > CRITICAL_HEAT,
        "targeted": targeted,
        "suppressed": mechs.suppressed > 0,
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
    }
    living = layout.pack(layout.EGO, values)
    dead = layout.pack(
        layout.EGO, {k: v if k in layout.OF_THE_DEAD else torch.zeros_like(v) for k, v in values.items()}
    )
    return torch.where(mechs.alive[..., None], living, dead)


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
    reach = torch.arange(side, device=mechs.yaw.device) - side // 2
    grid = torch.stack(torch.meshgrid(reach, reach, indexing="ij"), -1).flatten(0, 1).to(mechs.pos.dtype)
    view = heading(mechs.yaw)[:, :, None].expand(-1, -1, side * side, 2)
    point = mechs.pos[:, :, None, :2] + to_world(grid.expand_as(view), view)  # [B, N, 121, 2]
    x, y = point.floor().long().unbind(-1)
    outside = (x < 0) | (x >= world.size_x) | (y < 0) | (y >= world.size_y)
    solid = at_cells(game.maps.solid, state.map_id, x, y)
    blocked = outside | ((solid & height_bits(mechs.pos, game.roster.half_size)[..., None]) != 0)
    return (blocked & mechs.alive[..., None]).float().unflatten(-1, (side, side))
