"""Lines between all mechs of a battle as one kernel: open ground, and smoke."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from echelon.runtime.geometry import TINY
from echelon.sim.gpu.ground import first_hit
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.kernels.crosses_smoke import FAR_SQUARED
from echelon.sim.kernels.segments import TOP_Z
from echelon.sim.model import SimModel
from echelon.state import State


def lines(state: State, range_vox: float, game: SimModel) -> tuple[Tensor, Tensor]:
    """`[B, N, N]` bool each, of two living mechs: no opaque voxel is between them, and smoke is.

    As `sight.open_ground` within `range_vox` and `sight.smoke_between`, as matrices.
    """
    mechs, clouds, pairs = state.mechs, state.clouds, game.roster.everyone
    radius = game.catalog.cloud_vox if game.config.features.smoke else 0.0
    given = mechs.pos, mechs.alive, clouds.pos, clouds.ttl, pairs.first, pairs.second
    found: tuple[Tensor, Tensor] = _lines_op(
        state.terrain.opaque, *(fact.contiguous() for fact in given), range_vox, radius
    )
    return found


def _room(alive: Tensor) -> tuple[Tensor, Tensor]:
    """Where the results go."""
    battles, mechs = alive.shape
    return alive.new_empty((battles, mechs, mechs)), alive.new_empty((battles, mechs, mechs))


def line_sizes(opaque: Tensor, alive: Tensor, cloud_ttl: Tensor, first: Tensor, cloud_vox: float) -> dict[str, Any]:
    """What a kernel is launched with that calls `pair_lines` and `smoke_between`; without smoke `cloud_vox` is 0."""
    mechs, pairs = alive.shape[1], first.shape[0]
    return {
        "size_x": opaque.shape[2],
        "size_y": opaque.shape[1],
        "top_z": float(TOP_Z),
        "tiny": TINY,
        "far_squared": FAR_SQUARED,
        "clouds": cloud_ttl.shape[1] if cloud_vox > 0 else 0,
        "mechs": mechs,
        "pairs": pairs,
        "lanes": triton.next_power_of_2(mechs),
        "pair_lanes": triton.next_power_of_2(pairs),
        "warps": 4,
    }


@operator("lines")
def _lines_op(
    opaque: Tensor,
    pos: Tensor,
    alive: Tensor,
    cloud_pos: Tensor,
    cloud_ttl: Tensor,
    first: Tensor,
    second: Tensor,
    range_vox: float,
    cloud_vox: float,
) -> tuple[Tensor, Tensor]:
    is_open, is_smoky = _room(alive)
    launch(
        _lines,
        len(alive),
        opaque.device,
        *(opaque, pos, alive, cloud_pos, cloud_ttl, first, second, is_open, is_smoky),
        *(range_vox, cloud_vox * cloud_vox, int(range_vox) + 1),
        **line_sizes(opaque, alive, cloud_ttl, first, cloud_vox),
    )
    return is_open, is_smoky


@_lines_op.register_fake
def _(opaque: Tensor, pos: Tensor, alive: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    return _room(alive)


@triton.jit
def pair_lines(  # type: ignore[no-untyped-def]
    opaque,
    pos,
    alive,
    first,
    second,
    battle,
    range_vox,
    planes,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    mechs: tl.constexpr,
    pairs: tl.constexpr,
    pair_lanes: tl.constexpr,
):
    """Pairs of mechs, a lane each: both mechs, whether the lane has a pair, whether both live, whether they are also
    within `range_vox` with no opaque voxel between them, and their positions."""
    own, pair = battle * mechs, tl.arange(0, pair_lanes)
    listed = pair < pairs
    a, b = tl.load(first + pair, listed, 0), tl.load(second + pair, listed, 0)
    ax, ay, az = tl.load(pos + (own + a) * 3), tl.load(pos + (own + a) * 3 + 1), tl.load(pos + (own + a) * 3 + 2)
    bx, by, bz = tl.load(pos + (own + b) * 3), tl.load(pos + (own + b) * 3 + 1), tl.load(pos + (own + b) * 3 + 2)
    dx, dy, dz = bx - ax, by - ay, bz - az
    live = listed & (tl.load(alive + own + a) != 0) & (tl.load(alive + own + b) != 0)
    near = live & (tl.sqrt_rn(dx * dx + dy * dy + dz * dz) <= range_vox)
    columns = opaque + battle * (size_x * size_y)
    hit = first_hit(columns, ax, ay, az, bx, by, bz, near, planes, False, size_x, size_y, top_z, tiny)
    return a, b, listed, live, near & (hit == float("inf")), ax, ay, az, bx, by, bz


@triton.jit
def smoke_between(  # type: ignore[no-untyped-def]
    cloud_pos, cloud_ttl, battle, ax, ay, az, bx, by, bz, radius_sq, far_squared: tl.constexpr, clouds: tl.constexpr
):
    """`kernels.crosses_smoke` of pairs of points; `radius_sq` of the clouds."""
    dx, dy, dz = bx - ax, by - ay, bz - az
    apart = dx * dx + dy * dy + dz * dz
    crosses = apart < 0.0
    for cloud in range(clouds):
        at = cloud_pos + (battle * clouds + cloud) * 3
        if tl.load(cloud_ttl + battle * clouds + cloud) > 0:
            x, y, z = tl.load(at), tl.load(at + 1), tl.load(at + 2)
            px, py, pz, qx, qy, qz = x - ax, y - ay, z - az, x - bx, y - by, z - bz
            from_a, from_b = px * px + py * py + pz * pz, qx * qx + qy * qy + qz * qz
            along = 0.5 * (from_a + apart - from_b)
            beside = (along > 0.0) & (along < apart) & ((from_a - radius_sq) * apart < along * along)
            crosses = crosses | beside | (from_a < radius_sq) | (from_b < radius_sq)
    return crosses


@triton.jit
def _lines(  # type: ignore[no-untyped-def]
    opaque,
    pos,
    alive,
    cloud_pos,
    cloud_ttl,
    first,
    second,
    is_open,
    is_smoky,
    range_vox,
    radius_sq,
    planes,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    far_squared: tl.constexpr,
    clouds: tl.constexpr,
    mechs: tl.constexpr,
    pairs: tl.constexpr,
    lanes: tl.constexpr,
    pair_lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step is told."""
    battle = tl.program_id(0).to(tl.int64)
    matrix = battle * (mechs * mechs)
    is_open, is_smoky = is_open + matrix, is_smoky + matrix
    here = tl.arange(0, lanes)
    # Nobody has a line to itself.
    tl.store(is_open + here * (mechs + 1), here < 0, here < mechs)
    tl.store(is_smoky + here * (mechs + 1), here < 0, here < mechs)
    a, b, listed, live, clear, ax, ay, az, bx, by, bz = pair_lines(
        *(opaque, pos, alive, first, second, battle, range_vox, planes),
        *(size_x, size_y, top_z, tiny, mechs, pairs, pair_lanes),
    )
    tl.store(is_open + a * mechs + b, clear, listed)
    tl.store(is_open + b * mechs + a, clear, listed)
    smoky = live & (a < 0)
    if clouds > 0:
        smoky = live & smoke_between(
            cloud_pos, cloud_ttl, battle, ax, ay, az, bx, by, bz, radius_sq, far_squared, clouds
        )
    tl.store(is_smoky + a * mechs + b, smoky, listed)
    tl.store(is_smoky + b * mechs + a, smoky, listed)
