"""The streams of every cockpit, mech by mech: the loop form of `observation.build.observe`."""

from __future__ import annotations

from typing import Any

from echelon.env.loops.cockpit import body, clock, comrade, contact, find_way, local_map, settings, threats, zone
from echelon.env.loops.perception import contact_slots, perceive, prepare_viewers, sense_pairs
from echelon.runtime.jit import ZERO, called
from echelon.sim.loops.arithmetic import update_heading
from echelon.sim.loops.lanes import first, stride, wait


@called
def show_others(n: int, focus_slots: Any, scratch: Any, tables: Any, views: Any, streams: Any) -> None:
    """Fill the contacts and the comrades of one living mech."""
    at, squads, slots = views.columns[0], views.squads, streams.contact_mechs[n]
    for slot in range(contact_slots(n, scratch, tables, views, slots, focus_slots)):
        streams.contacts_mask[n, slot] = True
        contact(n, slots[slot], scratch, tables, views, streams.contacts[n, slot], at.contact)
    for seat in range(squads.shape[1]):
        mate = squads[n, seat]
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
def observe(kept: Any, ground: Any, field: Any, scratch: Any, tables: Any, views: Any, streams: Any, lane: Any) -> None:
    """Fill the streams of all cockpits of one battle, which are empty before, and `kept.focus_slots`."""
    rules, hulls, view, at, cockpits = tables.rules[0], tables.hulls, views.numbers[0], views.columns[0], views.cockpits
    mechs, viewers, orders, focus_slots = scratch.records.mechs, scratch.viewers, scratch.orders, kept.focus_slots
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        update_heading(mechs[n])
        for slot in range(focus_slots.shape[1]):
            focus_slots[n, slot] = -1
        find_way(mechs[n], viewers[n], field, rules)
    prepare_viewers(mechs, viewers, orders, hulls, cockpits, rules, view, lane)
    wait(lane)
    sense_pairs(ground.opaque, scratch, hulls, rules, view, lane)
    wait(lane)
    perceive(mechs, viewers, scratch.sights, scratch.records.paint, hulls, cockpits, view, lane)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, hull, row = mechs[n], hulls[n], streams.ego[n]
        clock(scratch.records.battles[0], hull, row, at.ego, view)
        for other in range(mechs.shape[0]):
            streams.clear_lines[n, other] = scratch.sights[n, other].line
        if mech.hp > ZERO:
            show_others(n, focus_slots[n], scratch, tables, views, streams)
            listen(n, cockpits[n], kept.messages, streams.comms[n])
            body(mech, hull, cockpits[n], row, at.ego, rules, view)
            threats(n, scratch, tables, row, at.ego, view)
            zone(mech, hull, viewers[n], field, row, at.ego, rules, view)
            settings(mech, hull, viewers[n], cockpits[n], orders[n], row, at.ego, rules)
            local_map(mech, hull, ground.solid, streams.local_map[n], scratch.around, rules)
