"""Shots: launch, guidance, movement and impacts. See `sim/shots.py`."""

import math
from typing import Any

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import SMALL, length_2, length_3, positive, unit_2, unit_3
from echelon.sim.loops.damage import direct_hit_damage, splash
from echelon.sim.loops.lanes import Lane, first, stride, wait
from echelon.sim.loops.records import (
    Columns,
    Hulls,
    Impact,
    Impacts,
    Mechs,
    Paint,
    Pairs,
    Pull,
    Rules,
    Scratch,
    Shot,
    Shots,
    Slots,
    Weapon,
    Weapons,
)
from echelon.sim.loops.segments import first_on_segment
from echelon.sim.loops.tables import Tables

homed = device_function(formulas.homed)


@device_function
def guide(shot: Shot, gun: Weapon, mechs: Mechs, rules: Rules) -> None:
    """Numba version of `shots.guide`, for one shot in flight."""
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


@device_function
def sphere_entry(start: Any, end_x: Any, end_y: Any, end_z: Any, center: Any, radius: Any) -> Any:
    """Numba version of `shots.sphere_entry`, for one segment and one sphere."""
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


@device_function
def exit_at(start: Any, delta: Any, end: Any, size: int) -> Any:
    """Numba version of `shots.map_exit`, for one axis."""
    if end >= ZERO and end < np.float32(size):
        return INFINITY
    border = ZERO if end < ZERO else np.float32(size)
    return positive((border - start) / (ONE if delta == ZERO else delta))


@device_function
def fly_one(shot: Shot, gun: Weapon, impact: Impact, mechs: Mechs, hulls: Hulls, solid: Columns, rules: Rules) -> None:
    """Numba version of `shots.fly`, for one shot in flight. Fills the remaining fields of `impact`."""
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


@device_function
def fly(
    shots: Shots,
    slots: Slots,
    weapons: Weapons,
    impacts: Impacts,
    mechs: Mechs,
    hulls: Hulls,
    solid: Columns,
    rules: Rules,
    lane: Lane,
) -> Any:
    """Numba version of `shots.fly`. Returns the number of shots in flight, and fills an impact for each of them, in the
    order of the slots."""
    flew = 0
    # All GPU threads (lanes) of a battle run this loop and write the same values.
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


@device_function
def burst(
    impact: Impact, mechs: Mechs, paint: Paint, pairs: Pairs, hulls: Hulls, gun: Weapon, solid: Columns, rules: Rules
) -> None:
    """Numba version of `shots.burst`, for one impact of a shot that splashes."""
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


@device_function
def strike(flew: int, scratch: Scratch, solid: Columns, tables: Tables) -> None:
    """Numba version of `shots.strike`."""
    mechs, paint, pairs, hulls = scratch.records.mechs, scratch.records.paint, scratch.pairs, tables.hulls
    rules = tables.rules[0]
    for k in range(flew):
        impact = scratch.impacts[k]
        gun = tables.weapons[impact.weapon]
        if impact.on_mech:
            scratch.records.tally[impact.shooter].hits[impact.weapon] += ONE
            x, y, height = impact.direction[0], impact.direction[1], impact.point[2]
            direct_hit_damage(impact, x, y, height, mechs, paint, pairs, hulls, gun, rules)
        splashes = rules.first_splashing <= impact.slot < rules.last_splashing
        if splashes and (impact.on_mech or impact.on_voxel or impact.on_floor):
            burst(impact, mechs, paint, pairs, hulls, gun, solid, rules)


drop = device_function(formulas.drop)


@device_function
def free_slot(one: Pull, gun: Weapon, hulls: Hulls, shots: Shots) -> Any:
    """Return the first empty shot slot of a mech's weapon, -1 for none."""
    slot = hulls[one.shooter].first_slot[one.weapon]
    for index in range(slot, slot + gun.slots):
        if shots[index].ttl == 0:
            return index
    return -1


@device_function
def launch(one: Pull, gun: Weapon, mechs: Mechs, hulls: Hulls, shot: Shot, rules: Rules) -> None:
    """Numba version of `firing.volley` and `shots.launch`, for one shot."""
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
