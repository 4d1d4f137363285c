"""The substeps of a decision of one battle. See `sim/step.py`."""

from typing import Any

from echelon.runtime.jit import device_function
from echelon.sim.loops.ams import intercept
from echelon.sim.loops.arithmetic import stream_key, uniform
from echelon.sim.loops.damage import apply, clear_dealt, credit_paint
from echelon.sim.loops.firing import fire
from echelon.sim.loops.footing import update_footing
from echelon.sim.loops.hazards import apply_hazards
from echelon.sim.loops.heat import dissipate_heat, is_shut_down
from echelon.sim.loops.lanes import Lane, first, is_first, stride, wait
from echelon.sim.loops.log import LogArrays, write_log
from echelon.sim.loops.movement import find_cells, move
from echelon.sim.loops.packing import Records
from echelon.sim.loops.records import Ground, Hulls, Mechs, Orders, Rules, Scratch
from echelon.sim.loops.rubble import damage_voxels, lay_wrecks
from echelon.sim.loops.shots import fly, strike
from echelon.sim.loops.smoke import spawn_clouds
from echelon.sim.loops.tables import Tables
from echelon.sim.loops.targeting import find_targets
from echelon.sim.loops.terrain import find_ground, invalidate_ground
from echelon.sim.loops.timers import count_down


@device_function
def reset_records(mechs: Mechs, hulls: Hulls, rules: Rules, lane: Lane) -> None:
    """Reset the cached values of records that another battle used before."""
    invalidate_ground(mechs, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        find_cells(mech, hulls[n].half_size, rules)
        mech.is_hit, mech.is_harmed = False, False
        mech.damage_done = 0.0
        mech.assist_hp = 0.0
        mech.paint_damage = 0.0


@device_function
def update_mechs(records: Records, orders: Orders, hulls: Hulls, ground: Ground, rules: Rules, lane: Lane) -> None:
    """Update timers, hazards, footing and heat of every mech, and draw its priority for this substep."""
    mechs, tally, clouds = records.mechs, records.tally, records.clouds
    key = stream_key(records.battles[0], rules.priority_stream)
    for slot in range(first(lane), clouds.shape[0], stride(lane)):
        clouds[slot].ttl = max(clouds[slot].ttl - 1, 0)
    # One loop over all mechs, so that the memory accesses to the terrain overlap.
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        find_ground(mechs[n], hulls[n], ground, rules)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, hull = mechs[n], hulls[n]
        mech.priority = uniform(key, n)
        mech.was_shut_down = is_shut_down(mech, hull)
        count_down(mech, records.paint[n], rules)
        apply_hazards(mech, hull, orders[n], rules)
        update_footing(mech, tally[n], rules)
        dissipate_heat(mech, hull, tally[n], orders[n], rules)


@device_function
def resolve_impacts(flew: int, scratch: Scratch, ground: Ground, tables: Tables) -> None:
    """Apply the impacts of `flew` shots to mechs and terrain."""
    records, impacts, rules = scratch.records, scratch.impacts, tables.rules[0]
    strike(flew, scratch, ground.solid, tables)
    spawn_clouds(impacts, flew, records.clouds, rules)
    damage_voxels(impacts, flew, tables.slots, tables.weapons, records.mechs, ground, rules)
    apply(records.mechs, records.tally, records.paint, scratch.pairs, tables.hulls, rules)


@device_function
def resolve_fire(scratch: Scratch, ground: Ground, tables: Tables) -> Any:
    """Fire weapons, apply their hits, credit painted (marked) targets, and turn a destroyed mech into a wreck. Returns
    the number of weapons that fired."""
    records, pairs, hulls, rules = scratch.records, scratch.pairs, tables.hulls, tables.rules[0]
    mechs, tally, paint = records.mechs, records.tally, records.paint
    fired = fire(scratch, tables)
    apply(mechs, tally, paint, pairs, hulls, rules)
    credit_paint(mechs, tally, paint, pairs, hulls, rules)
    lay_wrecks(records.battles[0], mechs, hulls, ground, rules)
    return fired


@device_function
def decide(b: int, battles: int, scratch: Scratch, ground: Ground, tables: Tables, log: LogArrays, lane: Lane) -> None:
    """Numba version of `step.decide`, for one battle, in place. The parts of a substep run in the same order as in
    `step.logged_substep`.

    Args:
        b: index of the battle.
        battles: number of battles B.
        scratch: records of the battle, and scratch memory.
        ground: terrain of the battle.
        tables: constants of the battle.
        log: buffers for the events of each substep, or None.
        lane: lane of a GPU warp, None on a CPU.
    """
    records, orders, pairs, impacts = scratch.records, scratch.orders, scratch.pairs, scratch.impacts
    mechs, rules, hulls, weapons, slots = records.mechs, tables.rules[0], tables.hulls, tables.weapons, tables.slots
    fired = 0
    reset_records(mechs, hulls, rules, lane)
    for k in range(rules.decision_repeat):
        update_mechs(records, orders, hulls, ground, rules, lane)
        wait(lane)
        if is_first(lane):
            intercept(records, slots, hulls, weapons, rules)
        wait(lane)
        flew = fly(records.shots, slots, weapons, impacts, mechs, hulls, ground.solid, rules, lane)
        clear_dealt(mechs, pairs, rules, lane)
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
            write_log(k * battles + b, flew, fired, scratch, weapons, log)
    clear_dealt(mechs, pairs, rules, lane)
