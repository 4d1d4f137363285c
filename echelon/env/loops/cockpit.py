"""The rows of one cockpit: contacts, comrades, itself and the ground around it. See the files of `env/observation`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from echelon.env.loops.perception import body_frame, hear, is_targeted
from echelon.env.loops.zone import is_inside, nearer
from echelon.runtime import geometry
from echelon.runtime.exact import atan2_64
from echelon.runtime.jit import ONE, ZERO, called, padded
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import SMALL, clamped, length_2, length_3, positive, unit_2
from echelon.sim.loops.upkeep import is_running, is_shut_down
from echelon.sim.loops.wrecks import height_bits

atan2, drop, out_of_frame = called(atan2_64), called(formulas.drop), called(geometry.out_of_frame)


@called
def within(value: Any, low: Any, high: Any) -> Any:
    """`value` between two limits."""
    return min(max(value, low), high)


@called
def motion(own: Any, mech: Any, row: Any, at: Any, view: Any) -> Any:
    """Columns of `contacts.motion` of one contact, but for the pitch.

    Returns how far away it is, how much higher, and how far away on the ground.
    """
    x, y, z = mech.pos[0] - own.pos[0], mech.pos[1] - own.pos[1], mech.pos[2] - own.pos[2]
    vel_x, vel_y, vel_z = mech.vel[0] - own.vel[0], mech.vel[1] - own.vel[1], mech.vel[2] - own.vel[2]
    distance, speed = length_3(x, y, z), length_3(vel_x, vel_y, vel_z)
    along = (x * vel_x + y * vel_y + z * vel_z) / max(distance, SMALL)
    ahead, left = body_frame(x, y, own)
    row[at.rel_pos], row[at.rel_pos + 1], row[at.rel_pos + 2] = (
        ahead / view.longest,
        left / view.longest,
        z / view.longest,
    )
    ahead, left = body_frame(vel_x, vel_y, own)
    row[at.rel_vel], row[at.rel_vel + 1] = ahead / view.speed_scale, left / view.speed_scale
    row[at.rel_vel + 2] = vel_z / view.speed_scale
    ahead, left = body_frame(mech.facing[0], mech.facing[1], own)
    row[at.rel_yaw_sin_cos], row[at.rel_yaw_sin_cos + 1] = within(left, -ONE, ONE), within(ahead, -ONE, ONE)
    row[at.closing] = within(-along / view.speed_scale, -ONE, ONE)
    row[at.crossing] = positive(ONE - abs(along) / max(speed, SMALL)) if speed > SMALL else ZERO
    return distance, z, length_2(x, y)


@called
def contact(n: int, other: int, slot: int, scratch: Any, tables: Any, views: Any, row: Any, at: Any) -> None:
    """Fill the columns of one contact, `row [F]` of zeros; see `contacts.others` and `contacts.motion`."""
    mechs, paint, hulls, rules = scratch.records.mechs, scratch.records.paint, tables.hulls, tables.rules[0]
    cockpit, view, sights, ranking = views.cockpits[n], views.numbers[0], scratch.sights, scratch.ranking
    own, mech, hull, by_mech = mechs[n], mechs[other], hulls[other], scratch.by_mech
    hostile = hull.is_red != hulls[n].is_red
    detailed = sights.line[n, other] & (sights.distance[n, other] <= view.sight_range_vox * cockpit.fidelity)
    row[at.hp] = by_mech.health[other] if detailed else ZERO
    row[at.heat] = by_mech.heat[other] if detailed else ZERO
    row[at.stability] = by_mech.stability[other] if detailed else ZERO
    row[at.detail] = ONE if detailed else ZERO
    row[at.fallen] = ONE if mech.fallen > 0 else ZERO
    row[at.legged] = ONE if mech.leg_hp <= ZERO else ZERO
    row[at.friendly] = ZERO if hostile else ONE
    row[at.hostile] = ONE if hostile else ZERO
    row[at.hull + hull.hull] = ONE
    row[at.painted] = ONE if hostile and paint[other, hulls[n].pack].left > 0 else ZERO
    row[at.intel] = ONE if sights.intel[n, other] else ZERO
    distance, z, ranking.reach[slot] = motion(own, mech, row, at, view)
    ranking.rise[slot] = z + drop(distance / cockpit.slug_speed, rules.half_gravity)


@called
def pitch(count: int, ranking: Any, rows: Any, at: Any, view: Any) -> None:
    """The column of all contacts of a cockpit that tells how high to aim, `rows [C, F]`."""
    for slot in range(padded(count)):
        ranking.pitch[slot] = atan2(ranking.rise[slot], ranking.reach[slot])
    for slot in range(count):
        rows[slot, at.lead_pitch] = np.float32(ranking.pitch[slot]) / view.quarter_turn


@called
def readiness(mech: Any, hull: Any, carries: Any, weapons: Any) -> Any:
    """`squad.readiness` of one mech; `carries [W]`."""
    carried, ready = ZERO, ZERO
    for weapon in range(weapons.shape[0]):
        if carries[weapon]:
            carried += ONE
            if mech.cooldown[weapons[weapon].timer] == 0:
                ready += ONE
    return (ready if is_running(mech, hull) else ZERO) / max(carried, ONE)


@called
def comrade(n: int, mate: int, scratch: Any, tables: Any, views: Any, row: Any, at: Any) -> None:
    """Fill the columns of one comrade, `row [F]` of zeros; see `squad.squad`."""
    mechs, by_mech, cockpits, view = scratch.records.mechs, scratch.by_mech, views.cockpits, views.numbers[0]
    own, mech, hull, cockpit = mechs[n], mechs[mate], tables.hulls[mate], cockpits[n]
    alive = mech.hp > ZERO
    ahead, left = body_frame(mech.pos[0] - own.pos[0], mech.pos[1] - own.pos[1], own)
    row[at.rel_pos], row[at.rel_pos + 1] = ahead / view.longest, left / view.longest
    row[at.rel_pos + 2] = (mech.pos[2] - own.pos[2]) / view.longest
    row[at.hull + hull.hull] = ONE
    if alive:
        row[at.alive] = ONE
        if cockpit.squad_detail >= 1:
            row[at.hp] = by_mech.health[mate]
            row[at.heat] = by_mech.heat[mate]
        if cockpit.squad_detail >= 2:
            row[at.stability] = by_mech.stability[mate]
            row[at.readiness] = readiness(mech, hull, cockpits[mate].carries, tables.weapons)
    target = scratch.orders[mate].focus
    if alive and target >= 0 and mechs[max(target, 0)].hp > ZERO and cockpit.sees_engaged:
        enemy, first = mechs[target], at.target_rel_pos
        ahead, left = body_frame(enemy.pos[0] - own.pos[0], enemy.pos[1] - own.pos[1], own)
        row[first], row[first + 1] = ahead / view.longest, left / view.longest
        row[first + 2] = (enemy.pos[2] - own.pos[2]) / view.longest


@called
def body(mech: Any, hull: Any, cockpit: Any, row: Any, at: Any, rules: Any, view: Any) -> None:
    """Columns of `ego.body` of one living mech."""
    heat, shut_down = mech.heat / hull.heat_cap, is_shut_down(mech, hull)
    row[at.hull + hull.hull] = ONE
    row[at.alive] = ONE
    for axis in range(3):
        row[at.position + axis] = mech.pos[axis] / np.float32(rules.size[axis])
    row[at.yaw_sin_cos], row[at.yaw_sin_cos + 1] = mech.facing[1], mech.facing[0]
    row[at.hp] = mech.hp / hull.hp
    row[at.leg_hp] = mech.leg_hp / cockpit.leg_hp
    row[at.heat] = heat
    row[at.headroom] = ONE - heat
    row[at.critical_heat] = ONE if heat > view.critical_heat else ZERO
    row[at.shut_down] = ONE if shut_down else ZERO
    row[at.stability_risk] = ONE - mech.stability / rules.stability_cap
    if not shut_down:
        ahead, left = body_frame(mech.vel[0], mech.vel[1], mech)
        row[at.velocity], row[at.velocity + 1] = ahead / view.speed_scale, left / view.speed_scale
        row[at.velocity + 2] = mech.vel[2] / view.speed_scale
    for trigger in range(cockpit.shown_timer.shape[0]):
        timer = cockpit.shown_timer[trigger]
        if timer < rules.num_timers:
            longest = np.float32(max(cockpit.longest_cooldown[timer], 1))
            row[at.cooldown + trigger] = np.float32(mech.cooldown[timer]) / longest


@called
def threats(n: int, scratch: Any, tables: Any, row: Any, at: Any, view: Any) -> None:
    """Columns of `ego.threats` of one living mech."""
    paint, mech, painted = scratch.records.paint, scratch.records.mechs[n], False
    for pack in range(paint.shape[1]):
        painted = painted or paint[n, pack].left > 0
    row[at.targeted] = ONE if is_targeted(n, scratch, view) else ZERO
    row[at.under_fire] = ONE if mech.under_fire > 0 else ZERO
    row[at.painted] = ONE if painted else ZERO
    row[at.incoming_missile] = ONE if scratch.by_mech.missile_target[n] else ZERO
    row[at.suppressed] = ONE if mech.suppressed > 0 else ZERO
    ahead, left = body_frame(mech.hit_from[0], mech.hit_from[1], mech)
    row[at.hit_from], row[at.hit_from + 1] = within(ahead, -ONE, ONE), within(left, -ONE, ONE)
    hear(n, mech, scratch, row, at.acoustics, view)


@called
def find_way(mech: Any, viewer: Any, field: Any, rules: Any) -> None:
    """Look up the way to the zone: for all mechs in a row, as each waits for the memory of the map."""
    x = clamped(int(np.floor(mech.pos[0])), rules.size[0] - 1)
    y = clamped(int(np.floor(mech.pos[1])), rules.size[1] - 1)
    viewer.path[0], viewer.path[1] = field.path_direction[y, x, 0], field.path_direction[y, x, 1]
    viewer.path_length = field.path_length[y, x]


@called
def zone(mech: Any, hull: Any, viewer: Any, field: Any, row: Any, at: Any, rules: Any, view: Any) -> None:
    """Columns of `ego.zone_and_clock` that tell of the zone, for one living mech."""
    to_x, to_y, radius = nearer(mech, field)
    path_x, path_y = viewer.path[0], viewer.path[1]
    inside = is_inside(mech, hull, field, view)
    if not inside and path_x == ZERO and path_y == ZERO:
        path_x, path_y = unit_2(to_x, to_y)
    row[at.in_zone] = ONE if inside else ZERO
    ahead, left = body_frame(to_x, to_y, mech)
    row[at.zone_vector], row[at.zone_vector + 1] = ahead / view.longest, left / view.longest
    row[at.zone_radius] = radius / view.longest
    ahead, left = body_frame(path_x, path_y, mech)
    row[at.path_direction], row[at.path_direction + 1] = within(ahead, -ONE, ONE), within(left, -ONE, ONE)
    row[at.path_length] = min(viewer.path_length / view.longest, view.longest_path)


@called
def settings(mech: Any, hull: Any, viewer: Any, cockpit: Any, order: Any, row: Any, at: Any, rules: Any) -> None:
    """Columns of `ego.settings` of one living mech."""
    runs = is_running(mech, hull)
    row[at.ecm] = ONE if order.ecm and runs else ZERO
    row[at.eccm] = ONE if order.eccm and runs else ZERO
    row[at.sensor_quality] = viewer.quality / rules.best_quality
    row[at.jam] = viewer.jam
    row[at.sort_mode + order.sort_mode] = ONE
    row[at.hostile_only] = ONE if order.hostile_only else ZERO
    for column in range(cockpit.descriptor.shape[0]):
        row[at.suite + column] = cockpit.descriptor[column]


class Surroundings(NamedTuple):
    """The cells of a local map, K of them, row by row; the last two fields are scratch memory."""

    ahead: Any
    """[K] float32 vox from the mech."""
    left: Any
    columns: Any
    """[K] int32, the column of the ground in each cell, or the nearest one: its place, then its bits."""
    outside: Any
    """[K] int32: all bits set where a cell is outside of the map."""


def surroundings(side: int) -> Surroundings:
    """For a local map of so many cells a side."""
    offset = np.arange(side, dtype=np.float32) - side // 2
    room = np.zeros((2, side * side), np.int32)
    return Surroundings(np.repeat(offset, side), np.tile(offset, side), room[0], room[1])


@called
def local_map(mech: Any, hull: Any, columns: Any, cells: Any, around: Any, rules: Any) -> None:
    """`local_map` of one living mech, `cells [11 * 11]`, on the solid `columns [Y * X]`.

    First which columns are there, then their bits, then what they say; the first and the last by vector instructions.
    """
    row, top_x, top_y = rules.size[0], np.float32(rules.size[0] - 1), np.float32(rules.size[1] - 1)
    at_x, at_y, cos, sin = mech.pos[0], mech.pos[1], mech.facing[0], mech.facing[1]
    level, raised = height_bits(mech.pos[2], hull), height_bits(mech.pos[2] + rules.step_up_vox, hull)
    for k in range(around.ahead.shape[0]):
        ahead, left = around.ahead[k], around.left[k]
        to_x, to_y = out_of_frame(ahead, left, cos, sin)
        x, y = np.floor(at_x + to_x), np.floor(at_y + to_y)
        inside_x, inside_y = within(x, ZERO, top_x), within(y, ZERO, top_y)
        around.columns[k] = np.int32(inside_y) * row + np.int32(inside_x)
        around.outside[k] = -np.int32((x != inside_x) | (y != inside_y))
    for k in range(cells.shape[0]):
        around.columns[k] = columns[np.uint32(around.columns[k])] | around.outside[k]
    for k in range(cells.shape[0]):
        bits = around.columns[k]
        cells[k] = ONE if ((bits & level) != 0) & ((bits & raised) != 0) else ZERO


@called
def clock(battle: Any, hull: Any, row: Any, at: Any, view: Any) -> None:
    """Columns of `ego.zone_and_clock` that the dead see too."""
    own, enemy = (1, 0) if hull.is_red else (0, 1)
    row[at.own_score] = min(battle.score[own] / view.score_to_win_s, ONE)
    row[at.enemy_score] = min(battle.score[enemy] / view.score_to_win_s, ONE)
    row[at.control] = battle.control[own] - battle.control[enemy]
    row[at.time] = np.float32(battle.tick) / view.last_tick
