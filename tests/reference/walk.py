"""Phase 7: turning, walking, jets and gravity, with collisions with terrain and other hulls."""

import math
from itertools import product

from echelon.rules.catalog import Material

from .battle import Battle, Mech, Orders
from .body import ground_under, warm
from .hair import at_most, below, cells_between
from .march import SOLID
from .senses import is_running, is_shut_down
from .vectors import Vector, norm, times, turned_by


def steer(battle: Battle, mech: Mech, told: Orders) -> None:
    """Update yaw and velocity."""
    rules, spec, runs = battle.rules, mech.spec, is_running(mech)
    planar = [0.0, 0.0]
    thrust = 0.0
    if runs:
        mech.yaw = turned_by(mech.yaw + told.turn * spec.yaw_rate_rad_per_s * rules.dt_s)
        pace = spec.max_speed_vox_per_s * (rules.legged_speed if mech.legged else 1.0)
        pace *= rules.water_speed if ground_under(battle, mech) == Material.WATER else 1.0
        ahead, left = told.throttle
        cos, sin = math.cos(mech.yaw), math.sin(mech.yaw)
        planar = [pace * (ahead * cos - left * sin), pace * (ahead * sin + left * cos)]
        thrust = max(0.0, told.thrust)
    elif is_shut_down(mech) and mech.fallen == 0:
        planar = times(mech.vel[:2], rules.shutdown_damping)
    lift = thrust * spec.jet_vox_per_s2 * (rules.legged_jet if mech.legged else 1.0)
    vertical = mech.vel[2] + (lift - rules.gravity_vox_per_s2) * rules.dt_s
    mech.vel = times([*planar, vertical], rules.velocity_damping)
    if spec.jet_vox_per_s2 > 0:
        warm(battle, mech, thrust * rules.jet_heat_per_s * rules.dt_s)


def is_blocked(battle: Battle, mech: Mech, pos: Vector) -> bool:
    """Return True if a hull at a position overlaps a solid voxel."""
    box = product(*(cells_between(pos[axis] - mech.half[axis], pos[axis] + mech.half[axis]) for axis in range(3)))
    return any(SOLID[battle.ground.at(*cell)] for cell in box)


def meet(a: Mech, pos_a: Vector, b: Mech, pos_b: Vector) -> bool:
    """Return True if two hulls overlap. Touching is no overlap."""
    gaps = [abs(pos_a[axis] - pos_b[axis]) - a.half[axis] - b.half[axis] for axis in range(3)]
    return below(max(gaps), 0.0, "hulls")


def chosen_box(battle: Battle, mech: Mech, axis: int) -> tuple[Vector, bool]:
    """Return the candidate position of a mech along one axis, and whether the map's border or terrain stopped it."""
    low, high = mech.half[axis], battle.ground.size[axis] - mech.half[axis]
    ahead = mech.pos[axis] + mech.vel[axis] * battle.rules.dt_s
    flat = list(mech.pos)
    flat[axis] = min(high, max(low, ahead))
    at_edge = not (at_most(low, ahead, "edge") and at_most(ahead, high, "edge"))
    if not is_blocked(battle, mech, flat):
        return flat, at_edge
    if axis < 2 and below(abs(mech.vel[2]), 1.0, "climbing speed"):
        raised = [flat[0], flat[1], flat[2] + battle.rules.step_up_vox]
        fits = at_most(raised[2] + mech.half[2], battle.ground.size[2], "ceiling")
        if fits and not is_blocked(battle, mech, raised):
            return raised, False
    return list(mech.pos), True


def go(battle: Battle, axis: int, priority: list[float]) -> None:
    """Move all mechs along one axis."""
    living = battle.living()
    old = {mech.index: list(mech.pos) for mech in living}
    wish = {mech.index: chosen_box(battle, mech, axis) for mech in living}
    for mech in living:
        pos, stopped = wish[mech.index]
        for other in living:
            if other is mech:
                continue
            outranks = (-priority[other.index], other.index) < (-priority[mech.index], mech.index)
            if meet(mech, pos, other, old[other.index]) or (outranks and meet(mech, pos, other, wish[other.index][0])):
                pos, stopped = old[mech.index], True
                break
        mech.pos = list(pos)
        if stopped:
            mech.vel[axis] = 0.0


def move(battle: Battle, orders: list[Orders], priority: list[float]) -> None:
    """Move all mechs along x, y and z in turn."""
    for mech in battle.mechs:
        if mech.alive:
            steer(battle, mech, orders[mech.index])
        else:
            mech.vel = [0.0, 0.0, 0.0]
    for axis in range(3):
        go(battle, axis, priority)
    assert all(math.isfinite(norm(mech.pos)) for mech in battle.mechs)
