"""The streams of every cockpit, mech by mech: the loop form of `observation.build.observe`."""

from __future__ import annotations

from typing import Any

from echelon.env.loops.cockpit import body, clock, comrade, contact, find_way, local_map, settings, threats, zone
from echelon.env.loops.perception import contact_slots, perceive, prepare_viewers, sense_pairs
from echelon.runtime.jit import ZERO, called
from echelon.sim.loops.arithmetic import update_heading


@called
def show_others(
    n: int,
    mechs: Any,
    viewers: Any,
    sights: Any,
    paint: Any,
    orders: Any,
    focus_slots: Any,
    tables: Any,
    views: Any,
    streams: Any,
) -> None:
    """Fill the contacts and the comrades of one living mech."""
    rules, hulls, weapons = tables.rules[0], tables.hulls, tables.weapons
    view, at, cockpits, squads = views.numbers[0], views.columns[0], views.cockpits, views.squads
    shown = streams.contact_mechs[n]
    filled = contact_slots(n, mechs, viewers, sights, orders[n], hulls, cockpits[n], shown, focus_slots, view)
    for slot in range(filled):
        streams.contacts_mask[n, slot] = True
        other, row = shown[slot], streams.contacts[n, slot]
        contact(n, other, mechs, sights, paint, hulls, cockpits[n], row, at.contact, rules, view)
    for seat in range(squads.shape[1]):
        mate = squads[n, seat]
        if mate < mechs.shape[0]:
            streams.squad_mask[n, seat] = True
            comrade(n, mate, mechs, orders, hulls, weapons, cockpits, streams.squad[n, seat], at.squad, rules, view)


@called
def listen(n: int, cockpit: Any, messages: Any, comms: Any) -> None:
    """Fill what the packmates of one living mech said."""
    for seat in range(cockpit.pack_slot.shape[0]):
        mate = cockpit.pack_slot[seat]
        if mate < messages.shape[0] and mate != n:
            for number in range(messages.shape[1]):
                comms[seat, number] = messages[mate, number]


@called
def observe(
    battle: Any,
    mechs: Any,
    paint: Any,
    shots: Any,
    clouds: Any,
    orders: Any,
    messages: Any,
    focus_slots: Any,
    ground: Any,
    field: Any,
    tables: Any,
    views: Any,
    viewers: Any,
    sights: Any,
    line: Any,
    around: Any,
    streams: Any,
) -> None:
    """Fill the streams of all cockpits of one battle, which are empty before, and `focus_slots`.

    `viewers`, `sights`, `line` and `around` are scratch memory. Long because of all that it takes.
    """
    rules, hulls, weapons, slots = tables.rules[0], tables.hulls, tables.weapons, tables.slots
    view, at, cockpits = views.numbers[0], views.columns[0], views.cockpits
    for n in range(mechs.shape[0]):
        update_heading(mechs[n])
        for slot in range(focus_slots.shape[1]):
            focus_slots[n, slot] = -1
        find_way(mechs[n], viewers[n], field, rules)
    prepare_viewers(mechs, viewers, orders, hulls, cockpits, rules, view)
    sense_pairs(mechs, viewers, sights, clouds, hulls, ground.opaque, line, rules, view)
    perceive(mechs, viewers, sights, paint, hulls, cockpits, view)
    for n in range(mechs.shape[0]):
        mech, hull, row = mechs[n], hulls[n], streams.ego[n]
        clock(battle, hull, row, at.ego, view)
        for other in range(mechs.shape[0]):
            streams.clear_lines[n, other] = sights[n, other].line
        if mech.hp > ZERO:
            show_others(n, mechs, viewers, sights, paint, orders, focus_slots[n], tables, views, streams)
            listen(n, cockpits[n], messages, streams.comms[n])
            body(mech, hull, cockpits[n], row, at.ego, rules, view)
            threats(n, mechs, viewers, sights, paint, shots, slots, hulls, weapons, row, at.ego, view)
            zone(mech, hull, viewers[n], field, row, at.ego, rules, view)
            settings(mech, hull, viewers[n], cockpits[n], orders[n], row, at.ego, rules)
            local_map(mech, hull, ground.solid, streams.local_map[n], around, rules)
