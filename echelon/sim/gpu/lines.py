"""Lines between all mechs of a battle as one kernel: open ground, and smoke."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from echelon.runtime.geometry import TINY
from echelon.sim.gpu.aiming import smoke_between
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
    battles, mechs = alive.shape
    is_open, is_smoky = _room(alive)
    launch(
        _lines,
        battles,
        opaque.device,
        *(opaque, pos, alive, cloud_pos, cloud_ttl, first, second, is_open, is_smoky),
        *(range_vox, cloud_vox * cloud_vox, int(range_vox) + 1),
        **{"size_x": opaque.shape[2], "size_y": opaque.shape[1], "top_z": float(TOP_Z), "tiny": TINY},
        **{"far_squared": FAR_SQUARED, "clouds": cloud_ttl.shape[1] if cloud_vox > 0 else 0},
        **{"mechs": mechs, "pairs": first.shape[0]},
        lanes=triton.next_power_of_2(mechs),
        pair_lanes=triton.next_power_of_2(first.shape[0]),
        warps=4,
    )
    return is_open, is_smoky


@_lines_op.register_fake
def _(opaque: Tensor, pos: Tensor, alive: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    return _room(alive)


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
    own, matrix = battle * mechs, battle * (mechs * mechs)
    is_open, is_smoky = is_open + matrix, is_smoky + matrix
    here = tl.arange(0, lanes)
    # Nobody has a line to itself.
    tl.store(is_open + here * (mechs + 1), here < 0, here < mechs)
    tl.store(is_smoky + here * (mechs + 1), here < 0, here < mechs)
    pair = tl.arange(0, pair_lanes)
    listed = pair < pairs
    a, b = tl.load(first + pair, listed, 0), tl.load(second + pair, listed, 0)
    ax, ay, az = tl.load(pos + (own + a) * 3), tl.load(pos + (own + a) * 3 + 1), tl.load(pos + (own + a) * 3 + 2)
    bx, by, bz = tl.load(pos + (own + b) * 3), tl.load(pos + (own + b) * 3 + 1), tl.load(pos + (own + b) * 3 + 2)
    dx, dy, dz = bx - ax, by - ay, bz - az
    live = listed & (tl.load(alive + own + a) != 0) & (tl.load(alive + own + b) != 0)
    near = live & (tl.sqrt_rn(dx * dx + dy * dy + dz * dz) <= range_vox)
    columns = opaque + battle * (size_x * size_y)
    hit = first_hit(columns, ax, ay, az, bx, by, bz, near, planes, False, size_x, size_y, top_z, tiny)
    clear = near & (hit == float("inf"))
    tl.store(is_open + a * mechs + b, clear, listed)
    tl.store(is_open + b * mechs + a, clear, listed)
    smoky = live & (pair < 0)
    if clouds > 0:
        smoky = live & smoke_between(
            cloud_pos, cloud_ttl, battle, ax, ay, az, bx, by, bz, radius_sq, far_squared, clouds
        )
    tl.store(is_smoky + a * mechs + b, smoky, listed)
    tl.store(is_smoky + b * mechs + a, smoky, listed)
