"""The streams of every cockpit, mech by mech: the loop form of `observation.build.observe`."""

from __future__ import annotations

from typing import Any

from echelon.env.loops.cockpit import body, clock, comrade, contact, local_map, settings, threats, zone
from echelon.env.loops.perception import contact_slots, perceive, sense_pairs
from echelon.sim.kernels.dispatch import ZERO, called, compiled
from echelon.sim.loops.arithmetic import update_heading


@called
def show_others(
    n: int,
    mechs: Any,
    viewers: Any,
    sights: Any,
    paint: Any,
    orders: Any,
    hulls: Any,
    weapons: Any,
    cockpits: Any,
    squads: Any,
    streams: Any,
    at: Any,
    rules: Any,
    view: Any,
) -> None:
    """Fill the contacts and the comrades of one living mech."""
    contacts, contacts_mask, shown, focus_slots, squad, squad_mask = streams
    filled = contact_slots(n, mechs, viewers, sights, orders[n], hulls, cockpits[n], shown[n], focus_slots[n], view)
    for slot in range(filled):
        contacts_mask[n, slot] = True
        other, row = shown[n, slot], contacts[n, slot]
        contact(n, other, mechs, sights, paint, hulls, cockpits[n], row, at.contact, rules, view)
    for seat in range(squads.shape[1]):
        mate = squads[n, seat]
        if mate < mechs.shape[0]:
            squad_mask[n, seat] = True
            comrade(n, mate, mechs, orders, hulls, weapons, cockpits, squad[n, seat], at.squad, rules, view)


@called
def listen(n: int, cockpit: Any, messages: Any, comms: Any) -> None:
    """Fill what the packmates of one living mech said."""
    for seat in range(cockpit.pack_slot.shape[0]):
        mate = cockpit.pack_slot[seat]
        if mate < messages.shape[0] and mate != n:
            for number in range(messages.shape[1]):
                comms[seat, number] = messages[mate, number]


@compiled
def observe_loop(
    all_battles: Any,
    all_mechs: Any,
    all_paint: Any,
    all_shots: Any,
    all_clouds: Any,
    all_orders: Any,
    messages: Any,
    score: Any,
    control: Any,
    all_solid: Any,
    all_opaque: Any,
    zone_center: Any,
    zone_radius: Any,
    path_length: Any,
    path_direction: Any,
    rules_table: Any,
    hulls: Any,
    weapons: Any,
    slots: Any,
    view_table: Any,
    columns: Any,
    cockpits: Any,
    squads: Any,
    viewers: Any,
    sights: Any,
    contacts: Any,
    contacts_mask: Any,
    squad: Any,
    squad_mask: Any,
    ego: Any,
    comms: Any,
    maps: Any,
    shown: Any,
    lines: Any,
    focus_slots: Any,
) -> None:
    """Fill the streams of all cockpits, from `contacts` on: zero or false, `shown` and `focus_slots` -1 before.

    Long because of all that it takes.
    """
    rules, view, at = rules_table[0], view_table[0], columns[0]
    for b in range(all_battles.shape[0]):
        battle, mechs, paint, shots, orders = all_battles[b], all_mechs[b], all_paint[b], all_shots[b], all_orders[b]
        streams = contacts[b], contacts_mask[b], shown[b], focus_slots[b], squad[b], squad_mask[b]
        m = battle.map_id
        for n in range(mechs.shape[0]):
            update_heading(mechs[n])
        sense_pairs(mechs, viewers, sights, all_clouds[b], orders, hulls, all_opaque[b], rules, view)
        perceive(mechs, viewers, sights, paint, orders, hulls, cockpits, rules, view)
        for n in range(mechs.shape[0]):
            mech, hull, row = mechs[n], hulls[n], ego[b, n]
            clock(battle.tick, hull, score[b], control[b], row, at.ego, view)
            for other in range(mechs.shape[0]):
                lines[b, n, other] = sights[n, other].line
            if mech.hp > ZERO:
                show_others(
                    n, mechs, viewers, sights, paint, orders, hulls, weapons, cockpits, squads, streams, at, rules, view
                )
                listen(n, cockpits[n], messages[b], comms[b, n])
                body(mech, hull, cockpits[n], row, at.ego, rules, view)
                threats(n, mechs, viewers, sights, paint, shots, slots, hulls, weapons, row, at.ego, view)
                center, radius = zone_center[m], zone_radius[m]
                zone(mech, hull, center, radius, path_length[m], path_direction[m], row, at.ego, rules, view)
                settings(mech, hull, viewers[n], cockpits[n], orders[n], row, at.ego, rules)
                local_map(mech, hull, all_solid[b], maps[b, n], rules)
