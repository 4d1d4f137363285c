"""The substeps of a decision of one battle: the loop form of `step.decide`."""

from __future__ import annotations

from typing import Any

from echelon.runtime.jit import ONE, ZERO, called
from echelon.sim.loops.arithmetic import stream_key, uniform
from echelon.sim.loops.damage import apply, begin_damage, credit_paint
from echelon.sim.loops.firing import beam, find_targets, free_slot, launch, mark, pay, pull
from echelon.sim.loops.flight import billow, chip, fly, intercept, strike
from echelon.sim.loops.lanes import first, is_first, stride, wait
from echelon.sim.loops.log import keep
from echelon.sim.loops.movement import find_cells, find_neighbours, go, steer, turn
from echelon.sim.loops.upkeep import burn, cool, count_down, find_ground, invalidate_ground, is_shut_down, stand
from echelon.sim.loops.wrecks import lay_one, next_wreck


@called
def begin(mechs: Any, hulls: Any, rules: Any, lane: Any) -> None:
    """Work out what a substep takes for known, of records that hold another battle's."""
    invalidate_ground(mechs, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        find_cells(mech, hulls[n].half_size, rules)
        mech.is_hit, mech.is_harmed = False, False
        mech.damage_done = 0.0
        mech.assist_hp = 0.0
        mech.paint_damage = 0.0


@called
def update_mechs(records: Any, orders: Any, hulls: Any, ground: Any, rules: Any, lane: Any) -> None:
    """Timers, hazards, footing and heat of every mech, and its rank in this substep."""
    mechs, tally, clouds = records.mechs, records.tally, records.clouds
    key = stream_key(records.battles[0], rules.priority_stream)
    for slot in range(first(lane), clouds.shape[0], stride(lane)):
        clouds[slot].ttl = max(clouds[slot].ttl - 1, 0)
    # For all mechs in a row, as each waits for the memory of the ground.
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        find_ground(mechs[n], hulls[n], ground, rules)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, hull = mechs[n], hulls[n]
        mech.priority = uniform(key, n)
        mech.was_shut_down = is_shut_down(mech, hull)
        count_down(mech, records.paint[n], rules)
        burn(mech, hull, orders[n], rules)
        stand(mech, tally[n], rules)
        cool(mech, hull, tally[n], orders[n], rules)


@called
def fire(scratch: Any, tables: Any) -> Any:
    """`firing.fire`: all weapons that have `aims`, on the same state. Returns how many did."""
    records, pairs, pulls = scratch.records, scratch.pairs, scratch.pulls
    mechs, tally, paint, shots = records.mechs, records.tally, records.paint, records.shots
    hulls, weapons, rules = tables.hulls, tables.weapons, tables.rules[0]
    count = pull(mechs, pulls, weapons)
    if count == 0:
        return count
    key = stream_key(records.battles[0], rules.beam_height_stream)
    for n in range(mechs.shape[0]):
        for pack in range(paint.shape[1]):
            paint[n, pack].weapon = -1
    for k in range(count):
        one = pulls[k]
        gun = weapons[one.weapon]
        if gun.is_beam:
            beam(one, key, mechs, tally, paint, pairs, hulls, gun, rules)
            if gun.paints:
                mark(one, paint, hulls, rules)
        else:
            slot = free_slot(one, gun, hulls, shots)
            if slot >= 0:
                launch(one, gun, mechs, hulls, shots[slot], rules)
    pay(pulls, count, mechs, tally, hulls, weapons, rules)
    return count


@called
def move(mechs: Any, tally: Any, boxes: Any, orders: Any, hulls: Any, ground: Any, rules: Any, lane: Any) -> None:
    """`movement.move` and `heat.count_shutdowns`."""
    turn(mechs, boxes, orders, hulls, rules, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        find_ground(mechs[n], hulls[n], ground, rules)
        steer(mechs[n], hulls[n], orders[n], mechs[n].stands_on == rules.water, rules)
    find_neighbours(mechs, boxes, hulls, rules, lane)
    for axis in range(3):
        go(axis, mechs, boxes.neighbours, hulls, ground.solid, rules, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        if mech.hp > ZERO and not mech.was_shut_down and is_shut_down(mech, hulls[n]):
            tally[n].shutdowns += ONE


@called
def lay_wreck(battle: Any, mechs: Any, hulls: Any, ground: Any, rules: Any) -> None:
    """`rubble.lay_wrecks`."""
    mech = next_wreck(mechs)
    if mech >= 0 and rules.destroys:
        luck = uniform(stream_key(battle, rules.wreck_stream), mech)
        lay_one(mech, luck < hulls[mech].wreck_chance, mechs, hulls, ground)
        mechs[mech].wrecked = True
        invalidate_ground(mechs, None)


@called
def resolve_impacts(flew: int, scratch: Any, ground: Any, tables: Any) -> None:
    """What the shots that flew do, to mechs and to the ground."""
    records, impacts, rules = scratch.records, scratch.impacts, tables.rules[0]
    strike(flew, scratch, ground.solid, tables)
    billow(impacts, flew, records.clouds, rules)
    chip(impacts, flew, tables.slots, tables.weapons, records.mechs, ground, rules)
    apply(records.mechs, records.tally, records.paint, scratch.pairs, tables.hulls, rules)


@called
def resolve_fire(scratch: Any, ground: Any, tables: Any) -> Any:
    """What weapons do that fire, and what is counted behind it. Returns how many fire."""
    records, pairs, hulls, rules = scratch.records, scratch.pairs, tables.hulls, tables.rules[0]
    mechs, tally, paint = records.mechs, records.tally, records.paint
    fired = fire(scratch, tables)
    apply(mechs, tally, paint, pairs, hulls, rules)
    credit_paint(mechs, tally, paint, pairs, hulls, rules)
    lay_wreck(records.battles[0], mechs, hulls, ground, rules)
    return fired


@called
def decide(b: int, battles: int, scratch: Any, ground: Any, tables: Any, log: Any, lane: Any) -> None:
    """`step.decide` of battle b of so many, in place; the order is that of `step.logged_substep`.

    `scratch` holds its records, and what is known within a substep; `log` is room for what is written down, or None.
    """
    records, orders, pairs, impacts = scratch.records, scratch.orders, scratch.pairs, scratch.impacts
    mechs, rules, hulls, weapons, slots = records.mechs, tables.rules[0], tables.hulls, tables.weapons, tables.slots
    fired = 0
    begin(mechs, hulls, rules, lane)
    for k in range(rules.decision_repeat):
        update_mechs(records, orders, hulls, ground, rules, lane)
        wait(lane)
        if is_first(lane):
            intercept(records, slots, hulls, weapons, rules)
        wait(lane)
        flew = fly(records.shots, slots, weapons, impacts, mechs, hulls, ground.solid, rules, lane)
        begin_damage(mechs, pairs, rules, lane)
        wait(lane)
        if is_first(lane):
            resolve_impacts(flew, scratch, ground, tables)
        wait(lane)
        find_targets(scratch, ground.opaque, tables, lane)
        wait(lane)
        if is_first(lane):
            fired = resolve_fire(scratch, ground, tables)
        wait(lane)
        move(mechs, records.tally, scratch.boxes, orders, hulls, ground, rules, lane)
        if is_first(lane):
            records.battles[0].tick += 1
        wait(lane)
        if log is not None and len(log.flew) > 0:
            keep(k * battles + b, flew, fired, scratch, weapons, log)
    begin_damage(mechs, pairs, rules, lane)
