"""`shots.fly` as one kernel: shots turn, fall, move and meet mechs, voxels and the border of the map."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.rules.catalog import HOMING_PER_S
from echelon.runtime.geometry import TINY
from echelon.sim.gpu.ground import first_hit, length_3
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.kernels.segments import TOP_Z
from echelon.sim.model import SimModel
from echelon.state import State


def fly(state: State, game: SimModel) -> tuple[Tensor, ...]:
    """Of every shot `[B, S]` its pos, vel and ttl, and of its impact point, direction, ends, on_mech, target, on_voxel
    and on_floor, see `shots.Impacts`."""
    shots, mechs, roster, rules = state.shots, state.mechs, game.roster, game.rules
    facts = shots.pos, shots.vel, shots.ttl, shots.target, mechs.pos, mechs.alive
    tables = roster.shots.shooter, roster.hostile, roster.radius, roster.homing, roster.ballistic, roster.shot_speed
    turn = HOMING_PER_S * rules.dt_s
    numbers = rules.dt_s, turn, 1 - turn, rules.gravity_vox_per_s2 * rules.dt_s
    planes, size_z = int(game.reach_vox) + 1, game.config.world.size_z
    found: tuple[Tensor, ...] = _fly_op(
        state.terrain.solid, *(fact.contiguous() for fact in (*facts, *tables)), *numbers, planes, size_z
    )
    return found


def _room(pos: Tensor, ttl: Tensor, target: Tensor) -> list[Tensor]:
    """Where a flight's results go."""
    flags = [torch.empty_like(ttl, dtype=torch.bool) for _ in range(4)]
    return [
        *(torch.empty_like(pos), torch.empty_like(pos), torch.empty_like(ttl), torch.empty_like(pos)),
        *(torch.empty_like(pos), flags[0], flags[1], torch.empty_like(target), flags[2], flags[3]),
    ]


Ten = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@operator("fly")
def _fly_op(
    solid: Tensor,
    pos: Tensor,
    vel: Tensor,
    ttl: Tensor,
    target: Tensor,
    mech_pos: Tensor,
    alive: Tensor,
    shooter: Tensor,
    hostile: Tensor,
    radius: Tensor,
    homing: Tensor,
    ballistic: Tensor,
    speed: Tensor,
    dt_s: float,
    turn: float,
    keep: float,
    fall: float,
    planes: int,
    size_z: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = _room(pos, ttl, target)
    battles, shots = ttl.shape
    size = {"size_x": solid.shape[2], "size_y": solid.shape[1], "size_z": size_z}
    launch(
        _fly,
        battles,
        solid.device,
        *(solid, pos, vel, ttl, target, mech_pos, alive, shooter, hostile, radius, homing, ballistic, speed),
        *found,
        *(dt_s, turn, keep, fall, planes),
        **{**size, "top_z": float(TOP_Z), "tiny": TINY, "mechs": alive.shape[1], "shots": shots},
        lanes=triton.next_power_of_2(shots),
        warps=2,
    )
    return tuple(found)  # type: ignore[return-value]


@_fly_op.register_fake
def _(solid: Tensor, pos: Tensor, vel: Tensor, ttl: Tensor, target: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(_room(pos, ttl, target))


@triton.jit
def _exit(start, delta, end, size):  # type: ignore[no-untyped-def]
    """`shots.map_exit` along one axis."""
    border = tl.where(end < 0.0, 0.0, size)
    way = (border - start) / tl.where(delta == 0.0, 1.0, delta)
    return tl.where((end < 0.0) | (end >= size), tl.maximum(way, 0.0), float("inf"))


@triton.jit
def _fly(  # type: ignore[no-untyped-def]
    solid,
    pos,
    vel,
    ttl,
    target,
    mech_pos,
    alive,
    shooter,
    hostile,
    radius,
    homing,
    ballistic,
    speed,
    new_pos,
    new_vel,
    new_ttl,
    point,
    direction,
    ends_at,
    on_mech_at,
    struck,
    on_voxel_at,
    on_floor_at,
    dt_s,
    turn,
    keep,
    fall,
    planes,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    size_z: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    mechs: tl.constexpr,
    shots: tl.constexpr,
    lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle, shot = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there = shot < shots
    row = battle * shots + shot
    left = tl.load(ttl + row, there, 0)
    flies = left > 0
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

    prey = tl.load(target + row, there, -1)
    tracks = flies & (tl.load(homing + shot, there, 0) != 0) & (prey >= 0)
    prey = battle * mechs + tl.maximum(prey, 0)
    tracks = tracks & (tl.load(alive + prey, tracks, 0) != 0)
    pace = tl.load(speed + shot, there, 0.0)
    wx, wy = tl.load(mech_pos + prey * 3, tracks, 0.0) - x, tl.load(mech_pos + prey * 3 + 1, tracks, 0.0) - y
    wz = tl.load(mech_pos + prey * 3 + 2, tracks, 0.0) - z
    far = tl.maximum(length_3(wx, wy, wz), tiny)
    wx, wy, wz = (
        keep * vx + turn * (wx / far * pace),
        keep * vy + turn * (wy / far * pace),
        keep * vz + turn * (wz / far * pace),
    )
    far = tl.maximum(length_3(wx, wy, wz), tiny)
    falls = flies & (tl.load(ballistic + shot, there, 0) != 0)
    vx, vy = tl.where(tracks, wx / far * pace, vx), tl.where(tracks, wy / far * pace, vy)
    vz = tl.where(tracks, wz / far * pace, tl.where(falls, vz - fall, vz))

    dx, dy, dz = vx * dt_s, vy * dt_s, vz * dt_s
    to_x, to_y, to_z = x + dx, y + dy, z + dz
    along_x, along_y, along_z = to_x - x, to_y - y, to_z - z
    a = tl.maximum(along_x * along_x + along_y * along_y + along_z * along_z, tiny)
    mech_at, met = tl.where(flies, float("inf"), float("inf")), left * 0
    owner = tl.load(shooter + shot, there, 0)
    for mech in range(mechs):
        meets = (
            flies
            & (tl.load(hostile + owner * mechs + mech, flies, 0) != 0)
            & (tl.load(alive + battle * mechs + mech) != 0)
        )
        at = mech_pos + (battle * mechs + mech) * 3
        sx, sy, sz = x - tl.load(at), y - tl.load(at + 1), z - tl.load(at + 2)
        reach = tl.load(radius + mech)
        half_b = along_x * sx + along_y * sy + along_z * sz
        c = sx * sx + sy * sy + sz * sz - reach * reach
        root = half_b * half_b - a * c
        t = (-half_b - tl.sqrt_rn(tl.maximum(root, 0.0))) / a
        t = tl.where(c <= 0.0, 0.0, tl.where((root >= 0.0) & (t >= 0.0) & (t <= 1.0), t, float("inf")))
        sooner = meets & (t < mech_at)
        mech_at, met = tl.where(sooner, t, mech_at), tl.where(sooner, mech, met)

    columns = solid + battle * (size_x * size_y)
    voxel_at = first_hit(columns, x, y, z, to_x, to_y, to_z, flies, planes, True, size_x, size_y, top_z, tiny)
    z_at = _exit(z, dz, to_z, size_z * 1.0)
    out_at = tl.minimum(tl.minimum(_exit(x, dx, to_x, size_x * 1.0), _exit(y, dy, to_y, size_y * 1.0)), z_at)
    floor_at = tl.where((to_z < 0.0) & (z_at == out_at), z_at, float("inf"))
    on_mech = flies & (mech_at < float("inf")) & (mech_at <= voxel_at) & (mech_at <= out_at)
    on_voxel = flies & ~on_mech & (voxel_at < float("inf")) & (voxel_at <= out_at)
    on_floor = flies & ~on_mech & ~on_voxel & (floor_at < float("inf"))
    way = tl.where(on_mech, mech_at, tl.where(on_voxel, voxel_at, tl.minimum(out_at, 1.0)))
    ends = flies & (on_mech | on_voxel | (out_at < float("inf")) | (left == 1))
    goes_on = flies & ~ends
    px, py, pz = x + way * dx, y + way * dy, z + way * dz
    far = tl.maximum(length_3(vx, vy, vz), tiny)

    tl.store(new_pos + row * 3, tl.where(goes_on, px, x), there)
    tl.store(new_pos + row * 3 + 1, tl.where(goes_on, py, y), there)
    tl.store(new_pos + row * 3 + 2, tl.where(goes_on, pz, z), there)
    tl.store(new_vel + row * 3, vx, there)
    tl.store(new_vel + row * 3 + 1, vy, there)
    tl.store(new_vel + row * 3 + 2, vz, there)
    tl.store(new_ttl + row, tl.where(ends, 0, tl.maximum(left - 1, 0)), there)
    tl.store(point + row * 3, px, there)
    tl.store(point + row * 3 + 1, py, there)
    tl.store(point + row * 3 + 2, pz, there)
    tl.store(direction + row * 3, vx / far, there)
    tl.store(direction + row * 3 + 1, vy / far, there)
    tl.store(direction + row * 3 + 2, vz / far, there)
    tl.store(ends_at + row, ends, there)
    tl.store(on_mech_at + row, on_mech, there)
    tl.store(struck + row, met.to(tl.int64), there)
    tl.store(on_voxel_at + row, on_voxel, there)
    tl.store(on_floor_at + row, on_floor, there)
