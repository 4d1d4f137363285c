"""Shots in flight: guidance, impacts, explosions, smoke, AMS, and what they do to the ground."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, called
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import SMALL, clamped, length_3, on_grid, positive, stream_key, uniform, unit_3
from echelon.sim.loops.damage import harm, splash
from echelon.sim.loops.lanes import first, stride, wait
from echelon.sim.loops.segments import clear_on_segment, first_on_segment
from echelon.sim.loops.upkeep import invalidate_ground, is_running, material_at

homed = called(formulas.homed)


@called
def guide(shot: Any, gun: Any, mechs: Any, rules: Any) -> None:
    """`shots.guide` of one shot in flight."""
    if gun.is_homing and shot.target >= 0 and mechs[np.uint32(shot.target)].hp > ZERO:
        target = mechs[np.uint32(shot.target)]
        x, y, z = unit_3(target.pos[0] - shot.pos[0], target.pos[1] - shot.pos[1], target.pos[2] - shot.pos[2])
        x, y, z = unit_3(
            homed(shot.vel[0], x * gun.speed, rules.keep, rules.turn),
            homed(shot.vel[1], y * gun.speed, rules.keep, rules.turn),
            homed(shot.vel[2], z * gun.speed, rules.keep, rules.turn),
        )
        shot.vel[0] = x * gun.speed
        shot.vel[1] = y * gun.speed
        shot.vel[2] = z * gun.speed
    elif gun.is_ballistic:
        shot.vel[2] = shot.vel[2] - rules.fall


@called
def sphere_entry(start: Any, end_x: Any, end_y: Any, end_z: Any, center: Any, radius: Any) -> Any:
    """`shots.sphere_entry` of one segment and one sphere."""
    way_x, way_y, way_z = end_x - start[0], end_y - start[1], end_z - start[2]
    x, y, z = start[0] - center[0], start[1] - center[1], start[2] - center[2]
    c = x * x + y * y + z * z - radius * radius
    if c <= ZERO:
        return ZERO
    a = max(way_x * way_x + way_y * way_y + way_z * way_z, SMALL)
    half_b = way_x * x + way_y * y + way_z * z
    root = half_b * half_b - a * c
    t = (-half_b - math.sqrt(positive(root))) / a
    return t if root >= ZERO and t >= ZERO and t <= ONE else INFINITY


@called
def exit_at(start: Any, delta: Any, end: Any, size: int) -> Any:
    """`shots.map_exit` along one axis."""
    if end >= ZERO and end < np.float32(size):
        return INFINITY
    border = ZERO if end < ZERO else np.float32(size)
    return positive((border - start) / (ONE if delta == ZERO else delta))


@called
def fly_one(shot: Any, gun: Any, impact: Any, mechs: Any, hulls: Any, solid: Any, rules: Any) -> None:
    """`shots.fly` of one shot in flight; fills the rest of its impact."""
    guide(shot, gun, mechs, rules)
    delta_x, delta_y, delta_z = shot.vel[0] * rules.dt_s, shot.vel[1] * rules.dt_s, shot.vel[2] * rules.dt_s
    x, y, z = shot.pos[0] + delta_x, shot.pos[1] + delta_y, shot.pos[2] + delta_z
    mech_at, target = INFINITY, 0
    for n in range(mechs.shape[0]):
        if mechs[n].hp > ZERO and hulls[n].is_red != hulls[impact.shooter].is_red:
            reached = sphere_entry(shot.pos, x, y, z, mechs[n].pos, hulls[n].radius)
            if reached < mech_at:
                mech_at = reached
                target = n
    planes = rules.shot_planes
    voxel_at = first_on_segment(solid, shot.pos[0], shot.pos[1], shot.pos[2], x, y, z, planes, True, False)
    z_at = exit_at(shot.pos[2], delta_z, z, rules.size[2])
    out_at = min(exit_at(shot.pos[0], delta_x, x, rules.size[0]), exit_at(shot.pos[1], delta_y, y, rules.size[1]))
    out_at = min(out_at, z_at)
    floor_at = z_at if z < ZERO and z_at == out_at else INFINITY

    on_mech = mech_at < INFINITY and mech_at <= voxel_at and mech_at <= out_at
    on_voxel = not on_mech and voxel_at < INFINITY and voxel_at <= out_at
    fraction = mech_at if on_mech else voxel_at if on_voxel else min(out_at, ONE)
    impact.start[0], impact.start[1], impact.start[2] = shot.pos[0], shot.pos[1], shot.pos[2]
    impact.point[0] = shot.pos[0] + fraction * delta_x
    impact.point[1] = shot.pos[1] + fraction * delta_y
    impact.point[2] = shot.pos[2] + fraction * delta_z
    impact.direction[0], impact.direction[1], impact.direction[2] = unit_3(shot.vel[0], shot.vel[1], shot.vel[2])
    impact.ends = on_mech or on_voxel or out_at < INFINITY or shot.ttl == 1
    impact.on_mech = on_mech
    impact.target = target
    impact.on_voxel = on_voxel
    impact.on_floor = not on_mech and not on_voxel and floor_at < INFINITY
    if impact.ends:
        shot.ttl = 0
    else:
        shot.ttl = shot.ttl - 1
        shot.pos[0], shot.pos[1], shot.pos[2] = impact.point[0], impact.point[1], impact.point[2]


@called
def fly(
    shots: Any, slots: Any, weapons: Any, impacts: Any, mechs: Any, hulls: Any, solid: Any, rules: Any, lane: Any
) -> Any:
    """`shots.fly` of all shots of a battle. Returns how many flew; `impacts` has a record of each, in order."""
    flew = 0
    # By every lane, which all write the same.
    for slot in range(shots.shape[0]):
        if shots[slot].ttl > 0:
            impact, spec = impacts[flew], slots[slot]
            impact.slot, impact.shooter, impact.weapon = slot, spec.shooter, spec.weapon
            flew += 1
    wait(lane)
    for k in range(first(lane), flew, stride(lane)):
        impact = impacts[k]
        fly_one(shots[impact.slot], weapons[impact.weapon], impact, mechs, hulls, solid, rules)
    return flew


@called
def burst(impact: Any, mechs: Any, paint: Any, pairs: Any, hulls: Any, gun: Any, solid: Any, rules: Any) -> None:
    """`shots.burst` of one impact of a shot that splashes."""
    x = impact.point[0] - rules.skin_vox * impact.direction[0]
    y = impact.point[1] - rules.skin_vox * impact.direction[1]
    z = impact.point[2] - rules.skin_vox * impact.direction[2]
    for n in range(mechs.shape[0]):
        mech = mechs[n]
        if mech.hp <= ZERO or (impact.on_mech and impact.target == n):
            continue
        to_x, to_y, to_z, planes = mech.pos[0], mech.pos[1], mech.pos[2], rules.burst_planes
        if length_3(to_x - x, to_y - y, to_z - z) > gun.splash_vox:
            continue
        if first_on_segment(solid, x, y, z, to_x, to_y, to_z, planes, False, True) == INFINITY:
            splash(impact, n, x, y, mechs, paint, pairs, hulls, gun, rules)


@called
def strike(flew: int, scratch: Any, solid: Any, tables: Any) -> None:
    """`shots.strike`."""
    mechs, paint, pairs, hulls = scratch.records.mechs, scratch.records.paint, scratch.pairs, tables.hulls
    rules = tables.rules[0]
    for k in range(flew):
        impact = scratch.impacts[k]
        gun = tables.weapons[impact.weapon]
        if impact.on_mech:
            scratch.records.tally[impact.shooter].hits[impact.weapon] += ONE
            x, y, height = impact.direction[0], impact.direction[1], impact.point[2]
            harm(impact, x, y, height, mechs, paint, pairs, hulls, gun, rules)
        splashes = rules.first_splashing <= impact.slot < rules.last_splashing
        if splashes and (impact.on_mech or impact.on_voxel or impact.on_floor):
            burst(impact, mechs, paint, pairs, hulls, gun, solid, rules)


@called
def billow(impacts: Any, flew: int, clouds: Any, rules: Any) -> None:
    """`smoke.billow`."""
    for k in range(flew):
        impact = impacts[k]
        if impact.ends and rules.smokes and rules.first_launching <= impact.slot < rules.last_launching:
            first_slot = (impact.slot - rules.first_launching) * rules.clouds_each
            for slot in range(first_slot, first_slot + rules.clouds_each):
                cloud = clouds[slot]
                if cloud.ttl == 0:
                    cloud.pos[0], cloud.pos[1], cloud.pos[2] = impact.point[0], impact.point[1], impact.point[2]
                    cloud.ttl = rules.cloud_substeps
                    break


@called
def bitten(point: Any, direction: Any, axis: int, rules: Any) -> Any:
    """`rubble.bitten_voxel` along one axis."""
    return clamped(int(np.floor(point[axis] + rules.skin_vox * direction[axis])), rules.size[axis] - 1)


@called
def tear(impact: Any, planes: int, ground: Any, rules: Any) -> None:
    """`rubble.tear` of one shot."""
    x = bitten(impact.start, impact.direction, 0, rules)
    y = bitten(impact.start, impact.direction, 1, rules)
    z = bitten(impact.start, impact.direction, 2, rules)
    clear_on_segment(ground.opaque, ground.solid, x, y, z, impact.start, impact.point, planes)


@called
def total_bite(k: int, flew: int, x: int, y: int, z: int, impacts: Any, weapons: Any, rules: Any) -> Any:
    """`total_by_voxel` of the voxel that impact k hit; -1 if an earlier one hit it too."""
    total = 0.0
    for other in range(flew):
        impact = impacts[other]
        if (
            impact.on_voxel
            and bitten(impact.point, impact.direction, 0, rules) == x
            and bitten(impact.point, impact.direction, 1, rules) == y
            and bitten(impact.point, impact.direction, 2, rules) == z
        ):
            if other < k:
                return -ONE
            total += on_grid(weapons[impact.weapon].damage)
    return np.float32(total)


@called
def bite(k: int, flew: int, impacts: Any, weapons: Any, mechs: Any, ground: Any, rules: Any) -> None:
    """Damage the voxel that impact k hit, by all impacts on it, if k is the first of them."""
    x = bitten(impacts[k].point, impacts[k].direction, 0, rules)
    y = bitten(impacts[k].point, impacts[k].direction, 1, rules)
    z = bitten(impacts[k].point, impacts[k].direction, 2, rules)
    bit = np.int32(1) << np.int32(z)
    if not ground.solid[y, x] & bit:
        return
    bites = total_bite(k, flew, x, y, z, impacts, weapons, rules)
    if bites < ZERO:
        return
    worn = np.float32(ground.damage[z, y, x]) + bites
    hp = rules.material_hp[material_at(x, y, z, ground, rules)]
    ground.damage[z, y, x] = 0
    if bites > ZERO and worn >= hp:
        ground.solid[y, x] &= ~bit
        ground.opaque[y, x] &= ~bit
        ground.rubble[y, x] &= ~bit
        invalidate_ground(mechs, None)
    elif hp < INFINITY:
        ground.damage[z, y, x] = np.uint8(worn)


@called
def chip(impacts: Any, flew: int, slots: Any, weapons: Any, mechs: Any, ground: Any, rules: Any) -> None:
    """`rubble.chip`."""
    if rules.destroys:
        for k in range(flew):
            if rules.tears:
                tear(impacts[k], slots[impacts[k].slot].planes, ground, rules)
        for k in range(flew):
            if impacts[k].on_voxel:
                bite(k, flew, impacts, weapons, mechs, ground, rules)


@called
def nearest_threat(mech: Any, hull: Any, shots: Any, slots: Any, hulls: Any, rules: Any) -> Any:
    """The slot of the nearest shot that a mech's AMS would try, -1 for none."""
    nearest, best = INFINITY, -1
    for slot in range(rules.first_interceptable, rules.last_interceptable):
        shot = shots[slot]
        if shot.ttl > 0 and shot.target >= 0 and hulls[slots[slot].shooter].is_red != hull.is_red:
            distance = length_3(shot.pos[0] - mech.pos[0], shot.pos[1] - mech.pos[1], shot.pos[2] - mech.pos[2])
            if distance <= rules.ams_vox and distance < nearest:
                nearest = distance
                best = slot
    return best


@called
def intercept(records: Any, slots: Any, hulls: Any, weapons: Any, rules: Any) -> None:
    """`ams.intercept`."""
    mechs, tally, shots = records.mechs, records.tally, records.shots
    key = stream_key(records.battles[0], rules.ams_stream)
    for n in range(mechs.shape[0]):
        mech, hull = mechs[n], hulls[n]
        if not hull.has_ams or mech.cooldown[rules.ams_timer] != 0 or not is_running(mech, hull):
            continue
        slot = nearest_threat(mech, hull, shots, slots, hulls, rules)
        if slot < 0:
            continue
        mech.cooldown[rules.ams_timer] = rules.ams_substeps
        if uniform(key, n) < rules.ams_chance and not shots[slot].downed:
            shots[slot].downed = True
            tally[n].intercepts += ONE
            tally[n].intercepted_damage += np.float32(on_grid(weapons[slots[slot].weapon].damage))
    for slot in range(rules.first_interceptable, rules.last_interceptable):
        if shots[slot].downed:
            shots[slot].downed = False
            shots[slot].ttl = 0
