"""Firing of weapons. See `sim/firing.py`."""

from typing import Any

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import stream_key, uniform, unit_3
from echelon.sim.loops.damage import direct_hit_damage
from echelon.sim.loops.heat import bounded
from echelon.sim.loops.records import Hulls, Mechs, Paint, Pairs, Pull, Pulls, Rules, Scratch, Tally, Weapon, Weapons
from echelon.sim.loops.shots import free_slot, launch
from echelon.sim.loops.tables import Tables

beam_height = device_function(formulas.beam_height)


@device_function
def pull(mechs: Mechs, pulls: Pulls, weapons: Weapons) -> Any:
    """Numba version of `firing.pull`. Fills `pulls`, sorted by weapon and shooter; returns how many weapons fire."""
    any_fires, count = False, 0
    for n in range(mechs.shape[0]):
        any_fires = any_fires or mechs[n].fires
    if any_fires:
        for weapon in range(weapons.shape[0]):
            for n in range(mechs.shape[0]):
                target = mechs[n].aims[weapon]
                if target > -2:
                    record = pulls[count]
                    record.weapon, record.shooter = weapon, n
                    record.aimed, record.target = target >= 0, max(target, 0)
                    count += 1
    return count


@device_function
def beam(
    one: Pull, key: Any, mechs: Mechs, tally: Tally, paint: Paint, pairs: Pairs, hulls: Hulls, gun: Weapon, rules: Rules
) -> None:
    """Numba version of `firing.beam_hits`, for one beam; `key` is the `stream_key` of beam heights."""
    mech, target = mechs[one.shooter], mechs[one.target]
    luck, half_height = uniform(key, one.shooter), hulls[one.target].half_size[2]
    height = beam_height(target.pos[2], luck, half_height, rules.beam_spread, ONE)
    x, y, _ = unit_3(target.pos[0] - mech.pos[0], target.pos[1] - mech.pos[1], target.pos[2] - mech.pos[2])
    tally[one.shooter].hits[one.weapon] += ONE
    direct_hit_damage(one, x, y, height, mechs, paint, pairs, hulls, gun, rules)


@device_function
def mark(one: Pull, paint: Paint, hulls: Hulls, rules: Rules) -> None:
    """Numba version of `firing.paint`, for one beam. If several beams of one pack and weapon hit a target, only the
    first one counts."""
    paint_mark = paint[one.target, hulls[one.shooter].pack]
    if paint_mark.weapon != one.weapon:
        paint_mark.weapon = one.weapon
        paint_mark.left = rules.paint_substeps
        paint_mark.by = one.shooter


@device_function
def charge(pulls: Pulls, count: int, mechs: Mechs, tally: Tally, hulls: Hulls, weapons: Weapons, rules: Rules) -> None:
    """Numba version of `firing.charge`."""
    for n in range(mechs.shape[0]):
        mechs[n].spent_heat = ZERO
    for k in range(count):
        weapon, n = pulls[k].weapon, pulls[k].shooter
        mech, gun = mechs[n], weapons[weapon]
        mech.spent_heat += gun.self_heat
        mech.cooldown[gun.timer] = max(mech.cooldown[gun.timer], gun.cooldown)
        tally[n].shots[weapon] += ONE
    for n in range(mechs.shape[0]):
        if mechs[n].spent_heat > ZERO:
            mechs[n].heat = bounded(mechs[n].heat + mechs[n].spent_heat, hulls[n], rules)


@device_function
def fire(scratch: Scratch, tables: Tables) -> Any:
    """Numba version of `firing.fire`, for all weapons in `aims`. Returns how many weapons fired."""
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
    charge(pulls, count, mechs, tally, hulls, weapons, rules)
    return count
