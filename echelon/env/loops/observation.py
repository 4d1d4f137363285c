"""The streams of every cockpit, mech by mech: the loop form of `observation.build.observe`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.cockpit import body, clock, comrade, contact, find_way, local_map, pitch, settings, threats, zone
from echelon.env.loops.perception import contact_slots, find_missile_targets, perceive, prepare_viewers, sense_pairs
from echelon.runtime.jit import ZERO, called
from echelon.sim.loops.fetching import cache_lines_each, fetch_cache_lines
from echelon.sim.loops.lanes import first, is_first, stride, wait


@called
def fill(values: Any, number: Any, lane: Any) -> None:
    """Set all `values` to a number."""
    flat = values.reshape(values.size)
    for i in range(first(lane), values.size, stride(lane)):
        flat[i] = number


@called
def clear_streams(streams: Any, lane: Any) -> None:
    """Empty the streams of one battle."""
    fill(streams.contacts, ZERO, lane)
    fill(streams.contacts_mask, False, lane)
    fill(streams.squad, ZERO, lane)
    fill(streams.squad_mask, False, lane)
    fill(streams.ego, ZERO, lane)
    fill(streams.comms, ZERO, lane)
    fill(streams.contact_mechs, -1, lane)


@called
def show_others(n: int, focus_slots: Any, scratch: Any, tables: Any, views: Any, streams: Any) -> None:
    """Fill the contacts and the comrades of one living mech."""
    at, squads, slots = views.columns[0], views.squads, streams.contact_mechs[n]
    count = contact_slots(n, scratch, views.cockpits[n], views.numbers[0], slots, focus_slots)
    for slot in range(count):
        streams.contacts_mask[n, slot] = True
        contact(n, np.uint32(slots[slot]), slot, scratch, tables, views, streams.contacts[n, slot], at.contact)
    pitch(count, scratch.ranking, streams.contacts[n], at.contact, views.numbers[0])
    for seat in range(squads.shape[1]):
        mate = np.uint32(squads[n, seat])
        if mate < scratch.records.mechs.shape[0]:
            streams.squad_mask[n, seat] = True
            comrade(n, mate, scratch, tables, views, streams.squad[n, seat], at.squad)


@called
def listen(n: int, cockpit: Any, messages: Any, comms: Any) -> None:
    """Fill what the packmates of one living mech said."""
    for seat in range(cockpit.pack_slot.shape[0]):
        mate = cockpit.pack_slot[seat]
        if mate < messages.shape[0] and mate != n:
            for i in range(messages.shape[1]):
                comms[seat, i] = messages[mate, i]


@called
def show_mech(
    n: int, arrays: Any, columns: Any, field: Any, scratch: Any, tables: Any, views: Any, streams: Any
) -> None:
    """Fill the streams of one mech, empty before; `columns [Y * X]` are the solid ones."""
    rules, hull, view, at = tables.rules[0], tables.hulls[n], views.numbers[0], views.columns[0].ego
    mech, viewer, cockpit, row = scratch.records.mechs[n], scratch.viewers[n], views.cockpits[n], streams.ego[n]
    clock(scratch.records.battles[0], hull, row, at, view)
    for other in range(scratch.records.mechs.shape[0]):
        streams.clear_lines[n, other] = scratch.sights.line[n, other]
    if mech.hp > ZERO:
        show_others(n, arrays.focus_slots[n], scratch, tables, views, streams)
        listen(n, cockpit, arrays.messages, streams.comms[n])
        body(mech, hull, cockpit, row, at, rules, view)
        threats(n, scratch, tables, row, at, view)
        zone(mech, hull, viewer, field, row, at, rules, view)
        settings(mech, hull, viewer, cockpit, scratch.orders[n], row, at, rules)
        local_map(mech, hull, columns, streams.local_map[n], scratch.around, rules)
    else:
        for cell in range(streams.local_map.shape[1]):
            streams.local_map[n, cell] = ZERO


@called
def observe(
    arrays: Any,
    ground: Any,
    field: Any,
    following: Any,
    scratch: Any,
    tables: Any,
    views: Any,
    streams: Any,
    lane: Any,
) -> None:
    """Fill the streams of a battle and `arrays.focus_slots`; fetch the ground `following`."""
    rules, hulls, view, cockpits = tables.rules[0], tables.hulls, views.numbers[0], views.cockpits
    mechs, viewers, focus_slots = scratch.records.mechs, scratch.viewers, arrays.focus_slots
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        for slot in range(focus_slots.shape[1]):
            focus_slots[n, slot] = -1
        find_way(mechs[n], viewers[n], field, rules)
    prepare_viewers(scratch, hulls, cockpits, rules, view, lane)
    if is_first(lane):
        find_missile_targets(scratch.records.shots, tables.slots, tables.weapons, scratch.by_mech.missile_target)
    wait(lane)
    sense_pairs(ground.opaque, arrays.blocked_at, scratch, streams, rules, lane)
    clear_streams(streams, lane)
    wait(lane)
    perceive(scratch.by_mech, viewers, scratch.sights, hulls, view, lane)
    wait(lane)
    columns, of_ground = ground.solid.reshape(ground.solid.size), cache_lines_each(ground.solid, mechs.shape[0])
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        fetch_cache_lines(following.solid, n, of_ground, lane)
        fetch_cache_lines(following.opaque, n, of_ground, lane)
        show_mech(n, arrays, columns, field, scratch, tables, views, streams)
