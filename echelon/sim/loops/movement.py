"""Movement of mechs: walking, turning, jets, gravity and collisions. See `sim/movement.py`."""

from typing import Any, NamedTuple

import numpy as np

from echelon.runtime import geometry
from echelon.runtime.jit import HALF, INFINITY, ONE, ZERO, device_function, padded, whole_vectors
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import bits_between, cell_span, sine, wrap_angle
from echelon.sim.loops.heat import bounded, is_running, is_shut_down
from echelon.sim.loops.lanes import Lane, first, stride, wait
from echelon.sim.loops.records import Columns, Ground, Hull, Hulls, Mech, Mechs, Order, Orders, Rules, Tally
from echelon.sim.loops.terrain import find_ground

pace, turned, jet_heat = (
    device_function(formulas.pace),
    device_function(formulas.turned),
    device_function(formulas.jet_heat),
)
lift, climb_rate = device_function(formulas.lift), device_function(formulas.climb_rate)
out_of_frame = device_function(geometry.out_of_frame)


class Boxes(NamedTuple):
    """Scratch memory for the neighbour search, `[R]` each, where R is N (mechs) rounded up to whole SIMD vectors."""

    x: Any
    """Position of each mech."""
    y: Any
    z: Any
    reach_x: Any
    """Maximum distance of any point of the hull from `x` within a substep, -inf for dead mechs."""
    reach_y: Any
    reach_z: Any
    near: Any
    """bool: the mech is near the current one."""
    yaw: Any
    """Yaw of each mech; `facing_x` and `facing_y` are its heading."""
    facing_x: Any
    facing_y: Any
    neighbours: Any
    """[N, N] int32. The first `neighbours` entries of a mech's row are the indices of its neighbours."""


def boxes_scratch(count: int) -> Boxes:
    """Allocate the scratch memory for `count` mechs."""
    room = whole_vectors(count)
    floats = {name: np.zeros(room, np.float32) for name in Boxes._fields}
    others = {"near": np.zeros(room, np.bool_), "neighbours": np.zeros((count, count), np.int32)}
    return Boxes(**{**floats, **others})


@device_function
def update_headings(mechs: Mechs, boxes: Boxes, lane: Lane) -> None:
    """Compute the headings of all mechs from their yaws, with vector instructions."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        boxes.yaw[n] = mechs[n].yaw
    for n in range(first(lane), padded(boxes.yaw.shape[0]), stride(lane)):
        boxes.facing_x[n], boxes.facing_y[n] = sine(float(boxes.yaw[n]), 0.5), sine(float(boxes.yaw[n]), 0.0)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mechs[n].facing[0], mechs[n].facing[1] = boxes.facing_x[n], boxes.facing_y[n]


@device_function
def turn(mechs: Mechs, boxes: Boxes, orders: Orders, hulls: Hulls, rules: Rules, lane: Lane) -> None:
    """Turn all mechs by the turning rule of `movement.steer`."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        if is_running(mechs[n], hulls[n]):
            mechs[n].yaw = wrap_angle(turned(mechs[n].yaw, orders[n].turn, hulls[n].yaw_rate, rules.dt_s))
    update_headings(mechs, boxes, lane)


@device_function
def steer(mech: Mech, hull: Hull, order: Order, wades: Any, rules: Rules) -> None:
    """Numba version of `movement.steer`, for one mech that has turned; `wades` is True if the mech stands in water."""
    runs, legged = is_running(mech, hull), mech.leg_hp <= ZERO
    thrust = order.thrust if runs else ZERO
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


@device_function
def top_cell(axis: int, rules: Rules) -> int:
    """Return the last cell of an axis, which is the map's last cell for x and y, and the last of a bit column for z."""
    return 30 if axis == 2 else int(rules.size[axis] - 1)


@device_function
def find_cells(mech: Mech, half: Any, rules: Rules) -> None:
    """Store the first and last cell that a hull of half size `half [3]` spans along each axis."""
    for axis in range(3):
        mech.first_cell[axis], mech.last_cell[axis] = cell_span(mech.pos[axis], half[axis], top_cell(axis, rules))


@device_function
def bits_under(mech: Mech, columns: Columns, first_x: int, last_x: int, first_y: int, last_y: int) -> Any:
    """Return the bits that are set in any of the `columns [Y, X]` under a hull.

    The last result is cached in `mech`, because most steps end above the same columns.
    """
    where = 1 + ((first_x * columns.shape[1] + last_x) * columns.shape[0] + first_y) * columns.shape[0] + last_y
    if where != mech.columns:
        bits = np.int32(0)
        if max(last_x - first_x, last_y - first_y) < 3:
            # Most hulls cover at most three cells per axis: the first, the second and the last.
            x, y = min(first_x + 1, last_x), min(first_y + 1, last_y)
            bits |= columns[first_y, first_x] | columns[first_y, x] | columns[first_y, last_x]
            bits |= columns[y, first_x] | columns[y, x] | columns[y, last_x]
            bits |= columns[last_y, first_x] | columns[last_y, x] | columns[last_y, last_x]
        else:
            # No hull is longer than 4 vox, so five cells per axis are enough.
            for row in range(5):
                row_y = np.uint32(min(first_y + row, last_y))
                for column in range(5):
                    bits |= columns[row_y, np.uint32(min(first_x + column, last_x))]
        mech.columns, mech.column_bits = where, bits
    return mech.column_bits


@device_function
def find_next_pos(axis: int, mech: Mech, hull: Hull, solid: Columns, rules: Rules) -> None:
    """Compute the candidate position of a mech, as in `movement.move_axis`, and whether terrain or the border stops it.

    `first_cell` and `last_cell` of the mech become those of the candidate position.
    """
    half, size, cells, last_cells = hull.half_size[axis], np.float32(rules.size[axis]), mech.first_cell, mech.last_cell
    moved = mech.pos[axis] + mech.vel[axis] * rules.dt_s
    inside = min(max(moved, half), size - half)
    mech.stopped = inside != moved
    mech.next_pos[0] = mech.pos[0]
    mech.next_pos[1] = mech.pos[1]
    mech.next_pos[2] = mech.pos[2]
    mech.next_pos[axis] = inside
    first, last = cell_span(inside, half, top_cell(axis, rules))
    first_x, last_x = (first, last) if axis == 0 else (int(cells[0]), int(last_cells[0]))
    first_y, last_y = (first, last) if axis == 1 else (int(cells[1]), int(last_cells[1]))
    bits = bits_under(mech, solid, first_x, last_x, first_y, last_y)
    first_z, last_z = (first, last) if axis == 2 else (int(cells[2]), int(last_cells[2]))
    if bits & bits_between(first_z, last_z):
        raised = mech.pos[2] + rules.step_up_vox
        fits = raised + hull.half_size[2] <= np.float32(rules.size[2])
        lowest, highest = cell_span(raised, hull.half_size[2], 30)
        if axis < 2 and abs(mech.vel[2]) < ONE and fits and not bits & bits_between(lowest, highest):
            mech.next_pos[2], cells[2], last_cells[2] = raised, lowest, highest
            # A mech that climbs a step does not count as stopped, even at the map's border.
            mech.stopped = False
        else:
            mech.next_pos[axis] = mech.pos[axis]
            mech.stopped = True
            return
    cells[axis], last_cells[axis] = first, last


@device_function
def find_neighbours(mechs: Mechs, boxes: Boxes, hulls: Hulls, rules: Rules, lane: Lane) -> None:
    """List the living mechs that each mech may collide with in this substep, by index.

    The speeds of two mechs bound how much closer they can come along an axis. Along z the lower mech can also step up
    twice, in `move_axis` along x and along y. One more voxel of distance covers rounding errors.
    """
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, half = mechs[n], hulls[n].half_size
        alive = mech.hp > ZERO
        boxes.x[n], boxes.y[n], boxes.z[n] = mech.pos[0], mech.pos[1], mech.pos[2]
        boxes.reach_x[n] = half[0] + abs(mech.vel[0]) * rules.dt_s + HALF if alive else -INFINITY
        boxes.reach_y[n] = half[1] + abs(mech.vel[1]) * rules.dt_s + HALF if alive else -INFINITY
        rise = rules.step_up_vox + HALF
        boxes.reach_z[n] = half[2] + abs(mech.vel[2]) * rules.dt_s + rise if alive else -INFINITY
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        fill_neighbours(n, mechs.shape[0], mechs[n], boxes, boxes.neighbours[n])


@device_function
def fill_neighbours(n: int, count: int, mech: Mech, boxes: Boxes, neighbours: Any) -> None:
    """List the neighbours of one mech: compare all distances with vector instructions, then collect the indices."""
    x, y, z, reach_x, reach_y, reach_z = (
        boxes.x[n],
        boxes.y[n],
        boxes.z[n],
        boxes.reach_x[n],
        boxes.reach_y[n],
        boxes.reach_z[n],
    )
    for other in range(padded(boxes.near.shape[0])):
        near_x = abs(boxes.x[other] - x) <= boxes.reach_x[other] + reach_x
        near_y = abs(boxes.y[other] - y) <= boxes.reach_y[other] + reach_y
        near_z = abs(boxes.z[other] - z) <= boxes.reach_z[other] + reach_z
        boxes.near[other] = near_x & near_y & near_z
    boxes.near[n] = False
    found = 0
    # Append without a branch, because the processor could not predict it.
    for other in range(count):
        neighbours[found] = other
        found += 1 if boxes.near[other] else 0
    mech.neighbours = found


@device_function
def overlaps(one: Any, other: Any, half: Any, other_half: Any) -> Any:
    """Return True if two hulls overlap, given their centres and half sizes, `[3]` each."""
    return (
        (abs(one[0] - other[0]) < half[0] + other_half[0])
        & (abs(one[1] - other[1]) < half[1] + other_half[1])
        & (abs(one[2] - other[2]) < half[2] + other_half[2])
    )


@device_function
def yields(n: int, mechs: Mechs, neighbours: Any, hulls: Hulls) -> Any:
    """Numba version of `hits_hull`, for one mech."""
    mech, half, hits = mechs[n], hulls[n].half_size, False
    for index in range(mech.neighbours):
        other = np.uint32(neighbours[n, index])
        rival, rival_half = mechs[other], hulls[other].half_size
        goes_first = (rival.priority > mech.priority) | ((rival.priority == mech.priority) & (other < n))
        hits |= overlaps(mech.next_pos, rival.pos, half, rival_half)
        hits |= overlaps(mech.next_pos, rival.next_pos, half, rival_half) & goes_first
    return hits


@device_function
def move_axis(axis: int, mechs: Mechs, neighbours: Any, hulls: Hulls, solid: Columns, rules: Rules, lane: Lane) -> None:
    """Numba version of `movement.move_axis`, for all mechs of a battle."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        if mechs[n].hp > ZERO:
            find_next_pos(axis, mechs[n], hulls[n], solid, rules)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mechs[n].stays = mechs[n].hp <= ZERO or yields(n, mechs, neighbours, hulls)
    wait(lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        if mech.hp > ZERO:
            if mech.stays:
                find_cells(mech, hulls[n].half_size, rules)
            else:
                mech.pos[0] = mech.next_pos[0]
                mech.pos[1] = mech.next_pos[1]
                mech.pos[2] = mech.next_pos[2]
            if mech.stopped or mech.stays:
                mech.vel[axis] = ZERO


@device_function
def move(
    mechs: Mechs, tally: Tally, boxes: Boxes, orders: Orders, hulls: Hulls, ground: Ground, rules: Rules, lane: Lane
) -> None:
    """Numba version of `movement.move` and `heat.count_shutdowns`."""
    turn(mechs, boxes, orders, hulls, rules, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        find_ground(mechs[n], hulls[n], ground, rules)
        steer(mechs[n], hulls[n], orders[n], mechs[n].stands_on == rules.water, rules)
    find_neighbours(mechs, boxes, hulls, rules, lane)
    for axis in range(3):
        move_axis(axis, mechs, boxes.neighbours, hulls, ground.solid, rules, lane)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech = mechs[n]
        if mech.hp > ZERO and not mech.was_shut_down and is_shut_down(mech, hulls[n]):
            tally[n].shutdowns += ONE
