"""The loop of the stream `contacts` and its mask; see `observation/streams/contacts.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.perception import body_frame, contact_slots, within
from echelon.runtime.exact import atan2_64
from echelon.runtime.jit import ONE, ZERO, called, padded
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import SMALL, length_2, length_3, positive

atan2, drop = called(atan2_64), called(formulas.drop)


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
def show(n: int, sources: Any, streams: Any) -> None:
    """Fill the contacts of one mech, and its `contact_mechs` and `focus_slots`."""
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
