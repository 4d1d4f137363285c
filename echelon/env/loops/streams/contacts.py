"""The loop of the stream `contacts` and its mask; see `observation/streams/contacts.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import Cockpit, View, ViewTables
from echelon.env.loops.sensing import Ranking, body_frame, within
from echelon.env.loops.stream_arrays import Streams
from echelon.runtime.exact import atan2_64
from echelon.runtime.jit import INFINITY, ONE, ZERO, device_function, padded
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import SMALL, length_2, length_3, positive
from echelon.sim.loops.records import Mech, Scratch, Slots
from echelon.sim.loops.tables import Tables


@device_function
def list_others(n: int, scratch: Scratch, hostile_only: Any, sort_mode: Any, view: View) -> Any:
    """Fill the sort keys of a mech's possible contacts, +inf for all others.

    Return the number of mechs that are sensed, and the number of listed mechs.
    """
    by_mech, keys, sees, intel, red = (
        scratch.by_mech,
        scratch.ranking.key,
        scratch.sights.sees[n],
        scratch.sights.intel[n],
        scratch.by_mech.is_red[n],
    )
    friends, of_reports, by_weight, by_health = view.friends, view.intel, sort_mode == 1, sort_mode == 2
    visual, count = np.int32(0), 0
    for other in range(padded(keys.shape[0])):
        hostile = by_mech.is_red[other] != red
        is_shown = sees[other] & (hostile | (not hostile_only))
        of_enemy = by_mech.lightness[other] if by_weight else by_mech.health[other] if by_health else ZERO
        unseen = of_reports if intel[other] else INFINITY
        keys[other] = (of_enemy if hostile else friends) if is_shown else unseen
        visual = np.int32(visual + np.int32(is_shown))
    for other in range(scratch.viewers.shape[0]):
        scratch.ranking.listed[count] = other
        count += 1 if keys[other] < INFINITY else 0
    return visual, count


@device_function
def rank(index: int, keys: Any, distance: Any) -> Any:
    """Return the number of listed mechs before mech `index`, sorted by key, then distance, then index."""
    key, away, before = keys[index], distance[index], np.int32(0)
    for other in range(padded(keys.shape[0])):
        nearer = (distance[other] < away) | ((distance[other] == away) & (np.int32(other) < np.int32(index)))
        before = np.int32(before + np.int32((keys[other] < key) | ((keys[other] == key) & nearer)))
    return before


@device_function
def contact_slots(n: int, scratch: Scratch, cockpit: Cockpit, view: View, slots: Slots, focus_slots: Any) -> Any:
    """Apply `contacts.contact_slots` to one mech: fill `slots [C]` and `focus_slots`; return the number of contacts."""
    ranking, distance = scratch.ranking, scratch.sights.distance[n]
    order, is_red = scratch.orders[n], scratch.by_mech.is_red
    visual, count = list_others(n, scratch, order.hostile_only, order.sort_mode, view)
    num_visual = min(visual, cockpit.visual_slots)
    shown = min(num_visual + min(count - visual, cockpit.intel_slots), slots.shape[0])
    for index in range(count):
        other = np.uint32(ranking.listed[index])
        ranking.ranked[rank(other, ranking.key, distance)] = other
    for slot in range(shown):
        slots[slot] = ranking.ranked[slot if slot < num_visual else slot - num_visual + visual]
    for slot in range(min(shown, focus_slots.shape[0])):
        focus_slots[slot] = slots[slot] if is_red[slots[slot]] != is_red[n] else -1
    return shown


atan2, drop = device_function(atan2_64), device_function(formulas.drop)


@device_function
def motion(own: Mech, mech: Mech, row: Any, at: Any, view: View) -> Any:
    """Fill the columns of `contacts.motion` for one contact, except the pitch.

    Return its distance, its height above the viewer, and its horizontal distance.
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


@device_function
def contact(
    n: int, other: int, slot: int, scratch: Scratch, tables: Tables, views: ViewTables, row: Any, at: Any
) -> None:
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


@device_function
def pitch(count: int, ranking: Ranking, rows: Any, at: Any, view: View) -> None:
    """Fill the column `lead_pitch` of all contacts of a mech, `rows [C, F]`."""
    for slot in range(padded(count)):
        ranking.pitch[slot] = atan2(ranking.rise[slot], ranking.reach[slot])
    for slot in range(count):
        rows[slot, at.lead_pitch] = np.float32(ranking.pitch[slot]) / view.quarter_turn


@device_function
def show(n: int, sources: Any, streams: Streams) -> None:
    """Fill the contacts of one mech, its `contact_mechs` and its `focus_slots`."""
    scratch, views = sources.scratch, sources.views
    if scratch.records.mechs[n].hp > ZERO:
        at, rows, slots, view = (
            views.columns[0].contacts,
            streams.contacts[n],
            streams.contact_mechs[n],
            views.numbers[0],
        )
        count = contact_slots(n, scratch, views.cockpits[n], view, slots, sources.arrays.focus_slots[n])
        for slot in range(count):
            streams.contacts_mask[n, slot] = True
            contact(n, np.uint32(slots[slot]), slot, scratch, sources.tables, views, rows[slot], at)
        pitch(count, scratch.ranking, rows, at, view)
