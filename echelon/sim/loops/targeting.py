"""Target selection. See `sim/targeting.py`."""

from typing import Any

from echelon.runtime.jit import INFINITY, ONE, ZERO, device_function
from echelon.sim.loops.arithmetic import length_2, length_3
from echelon.sim.loops.ewar import find_emitters, jamming
from echelon.sim.loops.heat import is_running
from echelon.sim.loops.lanes import Lane, first, stride, wait
from echelon.sim.loops.records import Columns, Hulls, Rules, Scratch, Weapon
from echelon.sim.loops.sight import find_clouds, has_line
from echelon.sim.loops.tables import Tables


@device_function
def has_lock(
    shooter: int, target: int, away: Any, scratch: Scratch, opaque: Columns, hulls: Hulls, rules: Rules
) -> Any:
    """Numba version of `firing.locks`, for one pair, `away` vox apart."""
    mechs, paint = scratch.records.mechs, scratch.records.paint
    mech = mechs[shooter]
    if paint[target, hulls[shooter].pack].left > 0 and mech.quality < ZERO:
        mech.quality, _ = jamming(shooter, scratch, hulls, rules)
    by_paint = paint[target, hulls[shooter].pack].left > 0 and mech.quality >= rules.lock_quality
    is_near = away <= rules.sight_lock_vox
    return by_paint or (is_near and has_line(shooter, target, scratch, opaque, rules))


@device_function
def designate(shooter: int, gun: Weapon, scratch: Scratch, opaque: Columns, hulls: Hulls, rules: Rules) -> Any:
    """Numba version of `targeting.designate`, for one weapon of one mech. Returns the target's index, -1 for none."""
    mechs = scratch.records.mechs
    mech, focus = mechs[shooter], scratch.orders[shooter].focus
    best, target = INFINITY, -1
    for other in range(mechs.shape[0]):
        enemy = mechs[other]
        if enemy.hp <= ZERO or hulls[other].is_red == hulls[shooter].is_red or (gun.focus_only and other != focus):
            continue
        x, y, z = enemy.pos[0] - mech.pos[0], enemy.pos[1] - mech.pos[1], enemy.pos[2] - mech.pos[2]
        distance = length_3(x, y, z)
        key = -ONE if other == focus else distance
        if distance > gun.range_vox or key >= best:
            continue
        arc_cos = gun.focus_arc_cos if other == focus else gun.arc_cos
        if x * mech.facing[0] + y * mech.facing[1] < arc_cos * length_2(x, y):
            continue
        if gun.needs_line and not has_line(shooter, other, scratch, opaque, rules):
            continue
        if gun.needs_lock and not has_lock(shooter, other, distance, scratch, opaque, hulls, rules):
            continue
        best = key
        target = other
    return target


@device_function
def find_targets(scratch: Scratch, opaque: Columns, tables: Tables, lane: Lane) -> None:
    """Fill `aims` of each mech: the target of each weapon, -1 if it fires without a target, -2 if it does not fire."""
    mechs, orders, lines = scratch.records.mechs, scratch.orders, scratch.lines
    hulls, weapons, rules = tables.hulls, tables.weapons, tables.rules[0]
    for pair in range(first(lane), lines.shape[0], stride(lane)):
        lines[pair] = -1
    find_clouds(scratch, rules)
    find_emitters(scratch, hulls)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        mech.quality, mech.fires = -ONE, False
        may_fire = is_running(mech, hulls[n]) and not mech.vents
        for weapon in range(weapons.shape[0]):
            gun = weapons[weapon]
            mech.aims[weapon] = -2
            if may_fire & (orders[n].fire[weapon] != 0) & (mech.cooldown[gun.timer] == 0):
                target = designate(n, gun, scratch, opaque, hulls, rules)
                if target >= 0 or not gun.needs_target:
                    mech.aims[weapon], mech.fires = target, True
