"""Firing of weapons, and the lines of sight, smoke and jamming between shooters and targets. See `sim/firing.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from echelon.runtime.jit import HALF, INFINITY, ONE, ZERO, called
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import distance_sq, length_2, length_3, positive, uniform, unit_2, unit_3
from echelon.sim.loops.damage import harm
from echelon.sim.loops.lanes import first, stride, wait
from echelon.sim.loops.segments import first_on_segment
from echelon.sim.loops.upkeep import bounded, is_emitting, is_running, is_shut_down

drop, beam_height = called(formulas.drop), called(formulas.beam_height)
sensor_quality, projects_between = called(formulas.sensor_quality), called(formulas.projects_between)


@called
def is_in_smoke(a: Any, b: Any, apart: Any, radius_sq: Any) -> Any:
    """Whether a cloud lies between two points; `a`, `b` and `apart` are squared distances as in `crosses_smoke`."""
    return (a < radius_sq) | (b < radius_sq) | projects_between(a, b, apart, radius_sq, HALF)


@called
def find_clouds(scratch: Any, rules: Any) -> None:
    """List the clouds that hang, for `is_smoky`; by every lane, which all write the same."""
    clouds, battle, count = scratch.records.clouds, scratch.records.battles[0], 0
    if rules.smokes:
        for slot in range(clouds.shape[0]):
            if clouds[slot].ttl > 0:
                scratch.active_clouds[count] = slot
                count += 1
    battle.num_active_clouds = count


@called
def is_smoky(one: Any, two: Any, scratch: Any, rules: Any) -> Any:
    """`crosses_smoke` of one pair of mechs."""
    separation_sq = distance_sq(two.pos, one.pos)
    for index in range(scratch.records.battles[0].num_active_clouds):
        cloud = scratch.records.clouds[np.uint32(scratch.active_clouds[index])]
        a, b = distance_sq(cloud.pos, one.pos), distance_sq(cloud.pos, two.pos)
        if is_in_smoke(a, b, separation_sq, rules.cloud_vox_sq):
            return True
    return False


@called
def has_line(one: int, other: int, scratch: Any, opaque: Any, rules: Any) -> Any:
    """`sight.enemy_lines` of one pair of living mechs; remembered in `lines`."""
    mechs, lines = scratch.records.mechs, scratch.lines
    low, high = min(one, other), max(one, other)
    pair = low * mechs.shape[0] + high
    if lines[pair] < 0:
        start, end = mechs[low].pos, mechs[high].pos
        clear = length_3(end[0] - start[0], end[1] - start[1], end[2] - start[2]) <= rules.line_vox
        if clear:
            x, y, z, planes = start[0], start[1], start[2], rules.sight_planes
            clear = first_on_segment(opaque, x, y, z, end[0], end[1], end[2], planes, False, True) == INFINITY
        if clear:
            clear = not is_smoky(mechs[low], mechs[high], scratch, rules)
        lines[pair] = 1 if clear else 0
    return lines[pair] == 1


@called
def find_emitters(scratch: Any, hulls: Any) -> None:
    """List the mechs that emit, for `jamming`; by every lane, which all write the same."""
    mechs, orders, count = scratch.records.mechs, scratch.orders, 0
    for n in range(mechs.shape[0]):
        # Nothing is written that another lane would not: some may be ahead.
        if is_emitting(mechs[n], hulls[n], orders[n]):
            scratch.emitters[count] = n
            count += 1
    scratch.records.battles[0].num_emitters = count


@called
def jamming(n: int, scratch: Any, hulls: Any, rules: Any) -> Any:
    """`ewar.sense` of one mech: its sensors' quality, and the jamming that it suffers."""
    mechs, orders = scratch.records.mechs, scratch.orders
    mech = mechs[n]
    blind = mech.hp <= ZERO or is_shut_down(mech, hulls[n])
    jam, clear = ZERO, ZERO
    for index in range(scratch.records.battles[0].num_emitters):
        other = np.uint32(scratch.emitters[index])
        hull, order = hulls[other], orders[other]
        if other == n:
            continue
        distance = math.sqrt(distance_sq(mechs[other].pos, mech.pos))
        falloff = positive(ONE - distance / rules.ewar_vox)
        if hull.is_red != hulls[n].is_red and order.ecm:
            jam = max(jam, falloff)
        if hull.is_red == hulls[n].is_red and order.eccm:
            clear = max(clear, falloff)
    if blind:
        return rules.blind_quality, jam
    quality = sensor_quality(jam, clear, rules.jam_loss, rules.eccm_gain, ONE)
    return min(max(quality, rules.blind_quality), rules.best_quality), jam


@called
def has_lock(shooter: int, target: int, away: Any, scratch: Any, opaque: Any, hulls: Any, rules: Any) -> Any:
    """`firing.locks` of one pair, `away` vox apart."""
    mechs, paint = scratch.records.mechs, scratch.records.paint
    mech = mechs[shooter]
    if paint[target, hulls[shooter].pack].left > 0 and mech.quality < ZERO:
        mech.quality, _ = jamming(shooter, scratch, hulls, rules)
    by_paint = paint[target, hulls[shooter].pack].left > 0 and mech.quality >= rules.lock_quality
    is_near = away <= rules.sight_lock_vox
    return by_paint or (is_near and has_line(shooter, target, scratch, opaque, rules))


@called
def designate(shooter: int, gun: Any, scratch: Any, opaque: Any, hulls: Any, rules: Any) -> Any:
    """`designate` of one weapon of one mech: the index of its target, -1 for none."""
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


@called
def find_targets(scratch: Any, opaque: Any, tables: Any, lane: Any) -> None:
    """Fill `aims`: the index of the mech that a weapon of a mech fires at, -1 for none, -2 where it does not fire."""
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


@called
def pull(mechs: Any, pulls: Any, weapons: Any) -> Any:
    """`firing.pull`: fills `pulls`, by weapon, then shooter, and returns how many weapons fire."""
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


@called
def beam(one: Any, key: Any, mechs: Any, tally: Any, paint: Any, pairs: Any, hulls: Any, gun: Any, rules: Any) -> None:
    """`firing.beam_hits` of one beam; `key`: of the stream of heights."""
    mech, target = mechs[one.shooter], mechs[one.target]
    luck, half_height = uniform(key, one.shooter), hulls[one.target].half_size[2]
    height = beam_height(target.pos[2], luck, half_height, rules.beam_spread, ONE)
    x, y, _ = unit_3(target.pos[0] - mech.pos[0], target.pos[1] - mech.pos[1], target.pos[2] - mech.pos[2])
    tally[one.shooter].hits[one.weapon] += ONE
    harm(one, x, y, height, mechs, paint, pairs, hulls, gun, rules)


@called
def free_slot(one: Any, gun: Any, hulls: Any, shots: Any) -> Any:
    """The first empty slot of the shots of a weapon of a mech."""
    slot = hulls[one.shooter].first_slot[one.weapon]
    for index in range(slot, slot + gun.slots):
        if shots[index].ttl == 0:
            return index
    return -1


@called
def launch(one: Any, gun: Any, mechs: Any, hulls: Any, shot: Any, rules: Any) -> None:
    """`firing.volley` and `shots.launch` of one shot."""
    mech, hull, target = mechs[one.shooter], hulls[one.shooter], mechs[one.target]
    shot.pos[0], shot.pos[1], shot.pos[2] = mech.pos[0], mech.pos[1], mech.pos[2]
    shot.ttl = gun.lifetime
    shot.target = -1
    x, y, z = mech.facing[0], mech.facing[1], ZERO
    if gun.is_homing:
        x, y, z = unit_3(target.pos[0] - mech.pos[0], target.pos[1] - mech.pos[1], target.pos[2] - mech.pos[2])
        x, y, z = unit_3(x, y, z + rules.missile_loft)
        shot.pos[2] = mech.pos[2] + (hull.half_size[2] + rules.missile_rack_vox)
        shot.target = one.target
    elif gun.leaves_cloud:
        shot.pos[2] = mech.pos[2] + hull.half_size[2]
        flight_s = gun.lifetime_s
        if one.aimed:
            to_x, to_y = target.pos[0] - mech.pos[0], target.pos[1] - mech.pos[1]
            x, y = unit_2(to_x, to_y)
            flight_s = length_2(to_x, to_y) / gun.speed
        shot.ttl = max(int(np.rint(flight_s / rules.dt_s)), 1)
    else:
        shot.pos[2] = mech.pos[2] + hull.muzzle_z
        if one.aimed:
            to_x, to_y, to_z = target.pos[0] - shot.pos[0], target.pos[1] - shot.pos[1], target.pos[2] - shot.pos[2]
            if gun.is_ballistic:
                to_z = to_z + drop(length_3(to_x, to_y, to_z) / gun.speed, rules.half_gravity)
            x, y, z = unit_3(to_x, to_y, to_z)
    shot.vel[0], shot.vel[1], shot.vel[2] = x * gun.speed, y * gun.speed, z * gun.speed


@called
def mark(one: Any, paint: Any, hulls: Any, rules: Any) -> None:
    """`firing.paint` of one beam: of several of a pack and weapon the first counts."""
    paint_mark = paint[one.target, hulls[one.shooter].pack]
    if paint_mark.weapon != one.weapon:
        paint_mark.weapon = one.weapon
        paint_mark.left = rules.paint_substeps
        paint_mark.by = one.shooter


@called
def pay(pulls: Any, count: int, mechs: Any, tally: Any, hulls: Any, weapons: Any, rules: Any) -> None:
    """`firing.pay`."""
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
