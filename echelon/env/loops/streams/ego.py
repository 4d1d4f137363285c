"""The loop of the stream `ego`; see `observation/streams/ego.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import Cockpit, View, Viewer
from echelon.env.loops.sensing import body_frame, sense_sound, within
from echelon.env.loops.stream_arrays import Streams
from echelon.env.loops.zone import is_inside, nearer
from echelon.runtime.jit import ONE, ZERO, device_function, padded
from echelon.sim.loops.arithmetic import clamped, unit_2
from echelon.sim.loops.heat import is_running, is_shut_down
from echelon.sim.loops.records import BattleRow, Hull, Mech, Order, Rules, Scratch, Shots, Slots, Weapons
from echelon.sim.loops.tables import Tables


@device_function
def find_missile_targets(shots: Shots, slots: Slots, weapons: Weapons, missile_target: Any) -> None:
    """Fill `ego.is_missiles_target` of all mechs."""
    for n in range(missile_target.shape[0]):
        missile_target[n] = False
    for slot in range(shots.shape[0]):
        shot = shots[slot]
        if shot.ttl > 0 and shot.target >= 0 and weapons[slots[slot].weapon].is_homing:
            missile_target[np.uint32(shot.target)] = True


@device_function
def is_targeted(n: int, scratch: Scratch, view: View) -> Any:
    """Return `ego.is_targeted` of one mech."""
    by_mech, line, distance, targeted = scratch.by_mech, scratch.sights.line[n], scratch.sights.distance[n], False
    red, targeted_vox = by_mech.is_red[n], view.targeted_vox
    for other in range(padded(line.shape[0])):
        targeted |= (
            line[other] & (distance[other] <= targeted_vox) & (by_mech.is_red[other] != red) & by_mech.alive[other]
        )
    return targeted


@device_function
def body(mech: Mech, hull: Hull, cockpit: Cockpit, row: Any, at: Any, rules: Rules, view: View) -> None:
    """Fill the columns of `ego.body` for one living mech."""
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


@device_function
def threats(n: int, scratch: Scratch, tables: Tables, row: Any, at: Any, view: View) -> None:
    """Fill the columns of `ego.threats` for one living mech."""
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
    sense_sound(n, mech, scratch, row, at.acoustics, view)


@device_function
def find_way(mech: Mech, viewer: Viewer, field: Any, rules: Rules) -> None:
    """Read the path to the zone from the map. Called for all mechs in a row, so that the cache misses overlap."""
    x = clamped(int(np.floor(mech.pos[0])), rules.size[0] - 1)
    y = clamped(int(np.floor(mech.pos[1])), rules.size[1] - 1)
    viewer.path[0], viewer.path[1] = field.path_direction[y, x, 0], field.path_direction[y, x, 1]
    viewer.path_length = field.path_length[y, x]


@device_function
def zone(mech: Mech, hull: Hull, viewer: Viewer, field: Any, row: Any, at: Any, rules: Rules, view: View) -> None:
    """Fill the zone's columns of `ego.zone_and_clock` for one living mech."""
    to_x, to_y, radius = nearer(mech, field)
    path_x, path_y = viewer.path[0], viewer.path[1]
    inside = is_inside(mech.pos, hull, field, view)
    if not inside and path_x == ZERO and path_y == ZERO:
        path_x, path_y = unit_2(to_x, to_y)
    row[at.in_zone] = ONE if inside else ZERO
    ahead, left = body_frame(to_x, to_y, mech)
    row[at.zone_vector], row[at.zone_vector + 1] = ahead / view.longest, left / view.longest
    row[at.zone_radius] = radius / view.longest
    ahead, left = body_frame(path_x, path_y, mech)
    row[at.path_direction], row[at.path_direction + 1] = within(ahead, -ONE, ONE), within(left, -ONE, ONE)
    row[at.path_length] = min(viewer.path_length / view.longest, view.longest_path)


@device_function
def settings(
    mech: Mech, hull: Hull, viewer: Viewer, cockpit: Cockpit, order: Order, row: Any, at: Any, rules: Rules
) -> None:
    """Fill the columns of `ego.settings` for one living mech."""
    runs = is_running(mech, hull)
    row[at.ecm] = ONE if order.ecm and runs else ZERO
    row[at.eccm] = ONE if order.eccm and runs else ZERO
    row[at.sensor_quality] = viewer.quality / rules.best_quality
    row[at.jam] = viewer.jam
    row[at.sort_mode + order.sort_mode] = ONE
    row[at.hostile_only] = ONE if order.hostile_only else ZERO
    for column in range(cockpit.descriptor.shape[0]):
        row[at.suite + column] = cockpit.descriptor[column]


@device_function
def clock(battle: BattleRow, hull: Hull, field: Any, row: Any, at: Any, view: View) -> None:
    """Fill the columns of `ego.zone_and_clock` that dead mechs observe too."""
    own, enemy = (1, 0) if hull.is_red else (0, 1)
    row[at.own_score] = min(battle.score[own] / view.score_to_win_s, ONE)
    row[at.enemy_score] = min(battle.score[enemy] / view.score_to_win_s, ONE)
    row[at.control] = battle.control[own] - battle.control[enemy]
    row[at.time] = np.float32(battle.tick) / field.last_tick


@device_function
def show(n: int, sources: Any, streams: Streams) -> None:
    """Fill the row of one mech."""
    scratch, tables, views = sources.scratch, sources.tables, sources.views
    rules, hull, view, at = tables.rules[0], tables.hulls[n], views.numbers[0], views.columns[0].ego
    mech, viewer, cockpit, row = scratch.records.mechs[n], scratch.viewers[n], views.cockpits[n], streams.ego[n]
    clock(scratch.records.battles[0], hull, sources.field, row, at, view)
    if mech.hp > ZERO:
        body(mech, hull, cockpit, row, at, rules, view)
        threats(n, scratch, tables, row, at, view)
        zone(mech, hull, viewer, sources.field, row, at, rules, view)
        settings(mech, hull, viewer, cockpit, scratch.orders[n], row, at, rules)
