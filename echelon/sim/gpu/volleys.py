"""The shots that fire as one kernel: `firing.volley` of every weapon, and `shots.launch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.rules.catalog import MISSILE_LOFT, MISSILE_RACK_VOX
from echelon.runtime.geometry import TINY, heading
from echelon.sim.gpu.ground import half_turn_rounded, length_2, length_3
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.model import SimModel
from echelon.state import State

if TYPE_CHECKING:
    from echelon.sim.firing import Pulls


def launch_shots(state: State, pulls: Pulls, game: SimModel) -> State:
    """The state with the new shots of all weapons, as `pulls [B, W, N]` has them."""
    shots, mechs, roster, rules = state.shots, state.mechs, game.roster, game.rules
    facts = (
        *(shots.pos, shots.vel, shots.ttl, shots.target, mechs.pos, heading(mechs.yaw)),
        *(pulls.fires, pulls.aimed, pulls.target),
    )
    tables = (
        *(roster.shots.shooter, roster.shots.weapon, roster.shot_speed, roster.shot_flight_s, roster.homing),
        *(roster.ballistic, roster.leaves_cloud, roster.half_size, roster.muzzle),
    )
    lifetimes = [0 if spec.is_beam else rules.substeps(spec.lifetime_s) for spec in roster.weapons]
    numbers = 0.5 * rules.gravity_vox_per_s2, rules.dt_s
    pos, vel, ttl, target = _launch_op(*(fact.contiguous() for fact in (*facts, *tables)), lifetimes, *numbers)
    return state.replace(shots=shots.replace(pos=pos, vel=vel, ttl=ttl, target=target))


@operator("launch_shots")
def _launch_op(
    pos: Tensor,
    vel: Tensor,
    ttl: Tensor,
    target: Tensor,
    mech_pos: Tensor,
    facing: Tensor,
    fires: Tensor,
    aimed: Tensor,
    whom: Tensor,
    shooter: Tensor,
    weapon: Tensor,
    speed: Tensor,
    flight_s: Tensor,
    homing: Tensor,
    ballistic: Tensor,
    leaves_cloud: Tensor,
    half_size: Tensor,
    muzzle: Tensor,
    lifetimes: list[int],
    half_gravity: float,
    dt_s: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    after = [torch.empty_like(value) for value in (pos, vel, ttl, target)]
    battles, shots = ttl.shape
    launch(
        _launch,
        battles,
        pos.device,
        *(pos, vel, ttl, target, mech_pos, facing, fires, aimed, whom, shooter, weapon, speed, flight_s),
        *(homing, ballistic, leaves_cloud, half_size, muzzle, *after, half_gravity, dt_s),
        **{"loft": MISSILE_LOFT, "rack": MISSILE_RACK_VOX, "tiny": TINY, "nobody": NO_MECH},
        **{"lifetimes": tuple(lifetimes), "weapons": len(lifetimes), "mechs": mech_pos.shape[1], "shots": shots},
        lanes=triton.next_power_of_2(shots),
        warps=2,
    )
    return tuple(after)  # type: ignore[return-value]


@_launch_op.register_fake
def _(*facts: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(value) for value in facts[:4])


@triton.jit
def _unit(x, y, z, tiny: tl.constexpr):  # type: ignore[no-untyped-def]
    """`geometry.unit`."""
    far = tl.maximum(length_3(x, y, z), tiny)
    return x / far, y / far, z / far


@triton.jit
def _launch(  # type: ignore[no-untyped-def]
    pos,
    vel,
    ttl,
    target,
    mech_pos,
    facing,
    fires,
    aimed,
    whom,
    shooter,
    weapon,
    speed,
    flight_s,
    homing,
    ballistic,
    leaves_cloud,
    half_size,
    muzzle,
    new_pos,
    new_vel,
    new_ttl,
    new_target,
    half_gravity,
    dt_s,
    loft: tl.constexpr,
    rack: tl.constexpr,
    tiny: tl.constexpr,
    nobody: tl.constexpr,
    lifetimes: tl.constexpr,
    weapons: tl.constexpr,
    mechs: tl.constexpr,
    shots: tl.constexpr,
    lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle, shot = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there = shot < shots
    row = battle * shots + shot
    owner, gun, life = tl.load(shooter + shot, there, -1).to(tl.int32), shot * 0, shot * 0
    for number in tl.static_range(weapons):
        own = tl.load(weapon + shot * weapons + number, there, 0.0) != 0.0
        gun, life = tl.where(own, number, gun), tl.where(own, lifetimes[number], life)
    left = tl.load(ttl + row, there, 1)
    empty = left == 0
    key = tl.where(there, owner * weapons + gun, -1 - shot)
    earlier = (key[:, None] == key[None, :]) & empty[None, :] & (shot[None, :] < shot[:, None])
    fills = there & empty & (tl.max(earlier.to(tl.int32), 1) == 0)
    pulled = (battle * weapons + gun) * mechs + owner
    fills = fills & (tl.load(fires + pulled, there, 0) != 0)

    sighted, prey = tl.load(aimed + pulled, fills, 0) != 0, tl.load(whom + pulled, fills, 0)
    mech = battle * mechs + owner
    x, y, z = (
        tl.load(mech_pos + mech * 3, fills, 0.0),
        tl.load(mech_pos + mech * 3 + 1, fills, 0.0),
        tl.load(mech_pos + mech * 3 + 2, fills, 0.0),
    )
    prey_at = mech_pos + (battle * mechs + prey) * 3
    to_x, to_y, to_z = tl.load(prey_at, fills, 0.0), tl.load(prey_at + 1, fills, 0.0), tl.load(prey_at + 2, fills, 0.0)
    ahead_x, ahead_y = tl.load(facing + mech * 2, fills, 0.0), tl.load(facing + mech * 2 + 1, fills, 0.0)
    tall, pace = tl.load(half_size + owner * 3 + 2, fills, 0.0), tl.load(speed + shot, there, 1.0)

    homes, falls = tl.load(homing + shot, there, 0) != 0, tl.load(ballistic + shot, there, 0) != 0
    clouds = tl.load(leaves_cloud + gun, there, 0) != 0
    # Homing: above the hull, lofted.
    hx, hy, hz = _unit(to_x - x, to_y - y, to_z - z, tiny)
    hx, hy, hz = _unit(hx, hy, hz + loft, tiny)
    # Linear and ballistic: from the muzzle at the target, or straight ahead.
    from_x, from_y = x + tl.load(muzzle + owner * 3, fills, 0.0), y + tl.load(muzzle + owner * 3 + 1, fills, 0.0)
    from_z = z + tl.load(muzzle + owner * 3 + 2, fills, 0.0)
    kx, ky, kz = to_x - from_x, to_y - from_y, to_z - from_z
    flown_s = length_3(kx, ky, kz) / pace
    kz = tl.where(falls, kz + half_gravity * (flown_s * flown_s), kz)
    kx, ky, kz = _unit(kx, ky, kz, tiny)
    kx, ky, kz = tl.where(sighted, kx, ahead_x), tl.where(sighted, ky, ahead_y), tl.where(sighted, kz, 0.0)
    # Those that leave clouds: level, to the target's position.
    way = length_2(to_x - x, to_y - y)
    cx, cy = (to_x - x) / tl.maximum(way, tiny), (to_y - y) / tl.maximum(way, tiny)
    cx, cy = tl.where(sighted, cx, ahead_x), tl.where(sighted, cy, ahead_y)
    burns = tl.where(sighted, way / pace, tl.load(flight_s + shot, there, 0.0)) / dt_s
    burns = tl.maximum(half_turn_rounded(burns.to(tl.float64)), 1.0).to(tl.int32)

    vx, vy = tl.where(homes, hx, tl.where(clouds, cx, kx)), tl.where(homes, hy, tl.where(clouds, cy, ky))
    vz = tl.where(homes, hz, tl.where(clouds, 0.0, kz))
    at_x, at_y = tl.where(homes | clouds, x, from_x), tl.where(homes | clouds, y, from_y)
    at_z = tl.where(homes, z + (tall + rack), tl.where(clouds, z + tall, from_z))
    kept = there & ~fills
    old = tl.load(pos + row * 3, kept, 0.0)
    tl.store(new_pos + row * 3, tl.where(fills, at_x, old), there)
    old = tl.load(pos + row * 3 + 1, kept, 0.0)
    tl.store(new_pos + row * 3 + 1, tl.where(fills, at_y, old), there)
    old = tl.load(pos + row * 3 + 2, kept, 0.0)
    tl.store(new_pos + row * 3 + 2, tl.where(fills, at_z, old), there)
    old = tl.load(vel + row * 3, kept, 0.0)
    tl.store(new_vel + row * 3, tl.where(fills, vx * pace, old), there)
    old = tl.load(vel + row * 3 + 1, kept, 0.0)
    tl.store(new_vel + row * 3 + 1, tl.where(fills, vy * pace, old), there)
    old = tl.load(vel + row * 3 + 2, kept, 0.0)
    tl.store(new_vel + row * 3 + 2, tl.where(fills, vz * pace, old), there)
    tl.store(new_ttl + row, tl.where(fills, tl.where(clouds, burns, life), left), there)
    tl.store(new_target + row, tl.where(fills, tl.where(homes, prey, nobody), tl.load(target + row, kept, 0)), there)
