"""Walking, turning, jets and gravity, against terrain and against other hulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime import geometry
from echelon.runtime.jit import HALF, INFINITY, ONE, ZERO, called
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import clamped, update_heading, wrap_angle
from echelon.sim.loops.lanes import first, stride, wait
from echelon.sim.loops.upkeep import bounded, is_running, is_shut_down

pace, turned, jet_heat = called(formulas.pace), called(formulas.turned), called(formulas.jet_heat)
lift, climb_rate = called(formulas.lift), called(formulas.climb_rate)
out_of_frame = called(geometry.out_of_frame)


@called
def steer(mech: Any, hull: Any, order: Any, wades: Any, rules: Any) -> None:
    """`movement.steer` of one mech; `wades`: it stands in water."""
    runs, legged = is_running(mech, hull), mech.leg_hp <= ZERO
    thrust = order.thrust if runs else ZERO
    if runs:
        mech.yaw = wrap_angle(turned(mech.yaw, order.turn, hull.yaw_rate, rules.dt_s))
        update_heading(mech)
    if mech.hp <= ZERO:
        mech.vel[0] = ZERO
        mech.vel[1] = ZERO
        mech.vel[2] = ZERO
    else:
        if runs:
            speed = pace(hull.max_speed, rules.legged_speed if legged else ONE, rules.water_speed if wades else ONE)
            x, y = out_of_frame(order.throttle[0], order.throttle[1], mech.facing[0], mech.facing[1])
            x, y = x * speed, y * speed
        elif is_shut_down(mech, hull) and mech.fallen == 0:
            x, y = mech.vel[0] * rules.shutdown_damping, mech.vel[1] * rules.shutdown_damping
        else:
            x, y = ZERO, ZERO
        upward = lift(thrust, hull.jet, rules.legged_jet if legged else ONE)
        mech.vel[0] = x * rules.velocity_damping
        mech.vel[1] = y * rules.velocity_damping
        mech.vel[2] = climb_rate(mech.vel[2], upward, rules.gravity, rules.dt_s) * rules.velocity_damping
    mech.heat = bounded(mech.heat + jet_heat(thrust, rules.jet_heat_per_s, rules.dt_s), hull, rules)


@called
def meets_terrain(columns: Any, x: Any, y: Any, z: Any, half: Any) -> Any:
    """`hits_terrain` of one hull of half size `half [3]` at a position, in `columns [Y, X]`."""
    top_y, top_x = columns.shape[0] - 1, columns.shape[1] - 1
    first, last = clamped(int(np.floor(z - half[2])), 30), clamped(int(np.ceil(z + half[2])) - 1, 30)
    tall, bits = (1 << (last + 1)) - (1 << first), np.int32(0)
    first_x, last_x = clamped(int(np.floor(x - half[0])), top_x), clamped(int(np.ceil(x + half[0])) - 1, top_x)
    first_y, last_y = clamped(int(np.floor(y - half[1])), top_y), clamped(int(np.ceil(y + half[1])) - 1, top_y)
    for row in range(first_y, last_y + 1):
        for column in range(first_x, last_x + 1):
            bits |= columns[row, column]
    return bits & tall != 0


@called
def choose(axis: int, mech: Any, hull: Any, solid: Any, rules: Any) -> None:
    """The first half of `movement.go`: where a mech would go, and whether terrain or the border stops it."""
    half, size = hull.half_size[axis], np.float32(rules.size[axis])
    moved = mech.pos[axis] + mech.vel[axis] * rules.dt_s
    inside = min(max(moved, half), size - half)
    mech.stopped = inside != moved
    mech.next_pos[0] = mech.pos[0]
    mech.next_pos[1] = mech.pos[1]
    mech.next_pos[2] = mech.pos[2]
    mech.next_pos[axis] = inside
    if meets_terrain(solid, mech.next_pos[0], mech.next_pos[1], mech.next_pos[2], hull.half_size):
        raised = mech.pos[2] + rules.step_up_vox
        fits = raised + hull.half_size[2] <= np.float32(rules.size[2])
        climbs = False
        if axis < 2 and abs(mech.vel[2]) < ONE and fits:
            climbs = not meets_terrain(solid, mech.next_pos[0], mech.next_pos[1], raised, hull.half_size)
        if climbs:
            mech.next_pos[2] = raised
            # Only terrain stops a climber, not the border.
            mech.stopped = False
        else:
            mech.next_pos[axis] = mech.pos[axis]
            mech.stopped = True


@called
def find_neighbours(mechs: Any, pairs: Any, hulls: Any, rules: Any, lane: Any) -> None:
    """Fill whom each mech may meet in this substep: the hulls that are alive and near it, in order.

    What two mechs may close in along an axis is bounded by their speeds and the two steps up, of `go` along x and along
    y, of the lower one; the vox more is for rounding.
    """
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, half = mechs[n], hulls[n].half_size
        mech.neighbours = 0
        for axis in range(3):
            reach = half[axis] + abs(mech.vel[axis]) * rules.dt_s + rules.step_up_vox + HALF
            mech.reach[axis] = reach if mech.hp > ZERO else -INFINITY
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        for other in range(mechs.shape[0]):
            rival = mechs[other]
            # Bitwise, for most pairs are far on some axis, and no processor can predict on which.
            far_x = abs(mech.pos[0] - rival.pos[0]) > mech.reach[0] + rival.reach[0]
            far_y = abs(mech.pos[1] - rival.pos[1]) > mech.reach[1] + rival.reach[1]
            far_z = abs(mech.pos[2] - rival.pos[2]) > mech.reach[2] + rival.reach[2]
            if not (far_x | far_y | far_z) and other != n:
                pairs[n, mech.neighbours].neighbour = other
                mech.neighbours += 1


@called
def overlaps(one: Any, other: Any, half: Any, other_half: Any) -> Any:
    """Whether the boxes of two hulls at two positions, of half sizes `half` and `other_half`, overlap; `[3]` each."""
    return (
        abs(one[0] - other[0]) < half[0] + other_half[0]
        and abs(one[1] - other[1]) < half[1] + other_half[1]
        and abs(one[2] - other[2]) < half[2] + other_half[2]
    )


@called
def yields(n: int, mechs: Any, pairs: Any, hulls: Any) -> Any:
    """`hits_hull` of one mech."""
    mech = mechs[n]
    for index in range(mech.neighbours):
        other = pairs[n, index].neighbour
        rival = mechs[other]
        if overlaps(mech.next_pos, rival.pos, hulls[n].half_size, hulls[other].half_size):
            return True
        if overlaps(mech.next_pos, rival.next_pos, hulls[n].half_size, hulls[other].half_size) and (
            rival.priority > mech.priority or (rival.priority == mech.priority and other < n)
        ):
            return True
    return False


@called
def go(axis: int, mechs: Any, pairs: Any, hulls: Any, solid: Any, rules: Any, lane: Any) -> None:
    """`movement.go` of all mechs of a battle."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        if mechs[n].hp > ZERO:
            choose(axis, mechs[n], hulls[n], solid, rules)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mechs[n].stays = mechs[n].hp <= ZERO or yields(n, mechs, pairs, hulls)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        if mech.hp > ZERO:
            if not mech.stays:
                mech.pos[0] = mech.next_pos[0]
                mech.pos[1] = mech.next_pos[1]
                mech.pos[2] = mech.next_pos[2]
            if mech.stopped or mech.stays:
                mech.vel[axis] = ZERO
