"""`movement.travel` as one kernel: hulls move along x, y and z in turn."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.sim.gpu.ground import hits_terrain
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.model import SimModel
from echelon.sim.terrain import WIDEST_CELLS
from echelon.state import State


def travel(state: State, priority: Tensor, game: SimModel) -> tuple[Tensor, Tensor]:
    """Positions and velocities after a substep, `[B, N, 3]` each."""
    mechs, rules, world = state.mechs, game.rules, game.config.world
    moving = mechs.pos, mechs.vel, priority, mechs.alive, game.roster.half_size
    numbers = float(rules.dt_s), float(rules.step_up_vox), world.size_z
    pos, vel = _travel_op(state.terrain.solid, *(tensor.contiguous() for tensor in moving), *numbers)
    return pos, vel


@operator("travel")
def _travel_op(
    solid: Tensor,
    pos: Tensor,
    vel: Tensor,
    priority: Tensor,
    alive: Tensor,
    half_size: Tensor,
    dt_s: float,
    step_up_vox: float,
    size_z: int,
) -> tuple[Tensor, Tensor]:
    moved, speed = torch.empty_like(pos), torch.empty_like(vel)
    battles, mechs = alive.shape
    size = {"size_x": solid.shape[2], "size_y": solid.shape[1], "size_z": size_z}
    launch(
        _travel,
        battles,
        solid.device,
        *(solid, pos, vel, priority, alive, half_size, moved, speed),
        **{"dt_s": dt_s, "step_up": step_up_vox, **size, "mechs": mechs},
        widest=WIDEST_CELLS,
        lanes=triton.next_power_of_2(mechs),
        warps=4,
    )
    return moved, speed


@_travel_op.register_fake
def _(solid: Tensor, pos: Tensor, vel: Tensor, *rest: Tensor | float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(pos), torch.empty_like(vel)


@triton.jit
def _overlap(ax, ay, az, bx, by, bz, half_x, half_y, half_z):  # type: ignore[no-untyped-def]
    """`hits_hull.overlap` of the hulls of one battle."""
    near_x = tl.abs(ax[:, None] - bx[None, :]) < half_x[:, None] + half_x[None, :]
    near_y = tl.abs(ay[:, None] - by[None, :]) < half_y[:, None] + half_y[None, :]
    near_z = tl.abs(az[:, None] - bz[None, :]) < half_z[:, None] + half_z[None, :]
    return near_x & near_y & near_z


@triton.jit
def _travel(  # type: ignore[no-untyped-def]
    solid,
    pos,
    vel,
    priority,
    alive,
    half_size,
    moved,
    speed,
    dt_s,
    step_up,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    size_z: tl.constexpr,
    mechs: tl.constexpr,
    widest: tl.constexpr,
    lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle, mech = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there = mech < mechs
    row = battle * mechs + mech
    columns = solid + battle * (size_x * size_y)
    x, y, z = (
        tl.load(pos + row * 3, there, 0.0),
        tl.load(pos + row * 3 + 1, there, 0.0),
        tl.load(pos + row * 3 + 2, there, 0.0),
    )
    vx, vy, vz = (
        tl.load(vel + row * 3, there, 0.0),
        tl.load(vel + row * 3 + 1, there, 0.0),
        tl.load(vel + row * 3 + 2, there, 0.0),
    )
    hx, hy, hz = (
        tl.load(half_size + mech * 3, there, 0.0),
        tl.load(half_size + mech * 3 + 1, there, 0.0),
        tl.load(half_size + mech * 3 + 2, there, 0.0),
    )
    lives = tl.load(alive + row, there, 0) != 0
    rank = tl.load(priority + row, there, 0.0)
    ahead = rank[None, :] > rank[:, None]
    before = (rank[None, :] == rank[:, None]) & (mech[None, :] < mech[:, None])
    outranked = ahead | before
    other = lives[None, :] & (mech[None, :] != mech[:, None])
    for axis in tl.static_range(3):
        if axis == 0:
            at, pace, half, size = x, vx, hx, size_x * 1.0
        elif axis == 1:
            at, pace, half, size = y, vy, hy, size_y * 1.0
        else:
            at, pace, half, size = z, vz, hz, size_z * 1.0
        to = at + pace * dt_s
        inside = tl.minimum(tl.maximum(to, half), size - half)
        flat_x, flat_y, flat_z = x, y, z
        if axis == 0:
            flat_x = inside
        elif axis == 1:
            flat_y = inside
        else:
            flat_z = inside
        blocked = hits_terrain(columns, flat_x, flat_y, flat_z, hx, hy, hz, there, size_x, size_y, widest)
        stopped = (inside != to) | blocked
        chosen_x, chosen_y = tl.where(blocked, x, flat_x), tl.where(blocked, y, flat_y)
        chosen_z = tl.where(blocked, z, flat_z)
        if axis < 2:
            raised = flat_z + step_up
            tries = blocked & (tl.abs(vz) < 1.0) & (raised + hz <= size_z)
            climbs = tries & ~hits_terrain(columns, flat_x, flat_y, raised, hx, hy, hz, tries, size_x, size_y, widest)
            chosen_x, chosen_y = tl.where(climbs, flat_x, chosen_x), tl.where(climbs, flat_y, chosen_y)
            chosen_z = tl.where(climbs, raised, chosen_z)
            stopped = stopped & ~climbs
        meets = _overlap(chosen_x, chosen_y, chosen_z, x, y, z, hx, hy, hz)
        meets |= _overlap(chosen_x, chosen_y, chosen_z, chosen_x, chosen_y, chosen_z, hx, hy, hz) & outranked
        yields = tl.max((other & meets).to(tl.int32), 1) != 0
        stays = yields | ~lives
        x, y, z = tl.where(stays, x, chosen_x), tl.where(stays, y, chosen_y), tl.where(stays, z, chosen_z)
        if axis == 0:
            vx = tl.where(stopped | yields, 0.0, vx)
        elif axis == 1:
            vy = tl.where(stopped | yields, 0.0, vy)
        else:
            vz = tl.where(stopped | yields, 0.0, vz)
    tl.store(moved + row * 3, x, there)
    tl.store(moved + row * 3 + 1, y, there)
    tl.store(moved + row * 3 + 2, z, there)
    tl.store(speed + row * 3, vx, there)
    tl.store(speed + row * 3 + 1, vy, there)
    tl.store(speed + row * 3 + 2, vz, there)
