"""The rows of the contact table as one kernel: each is looked up, worked out and written once."""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from echelon.env.observation.layout import CONTACT, columns, width
from echelon.runtime import exact
from echelon.runtime.geometry import TINY
from echelon.sim.gpu.ground import length_2, length_3
from echelon.sim.gpu.launch import launch, operator

COLUMNS = {f"at_{feature.name}": columns(CONTACT, feature.name).start for feature in CONTACT}
"""Where each feature begins in a row."""
COEFFICIENTS, TERMS = tl.constexpr(exact.ARC_TANGENT), tl.constexpr(len(exact.ARC_TANGENT))
DETAIL, INTEL, PAINTED = 1, 2, 4
"""What a mech knows of another, as the bits of `contacts.known_bits`."""


def contact_rows(
    slots: Tensor,
    filled: Tensor,
    facts: Tensor,
    mechs: Sequence[Tensor],
    limits: tuple[float, float, float],
    out: Tensor,
) -> None:
    """Write `contacts` of `observation.contacts` to `out [B, N, C, F]`.

    Args:
        slots, filled: `[B, N, C]` int64 and bool.
        facts: `[B, N, N]` uint8, bits of `contacts.known_bits`.
        mechs: `[B, N, *]` positions, velocities and headings; `[B, N]` hit points, heat and stability as shares, and
            whether each is fallen, and legged; `[N]` whether it is red, `[N, H]` its hull and `[N]` how fast its
            falling shot flies.
        limits: longest side of the map, half of gravity, scale of velocities.
    """
    _contact_rows_op(*(fact.contiguous() for fact in (slots, filled, facts, *mechs)), *map(float, limits), out)


@operator("contact_rows", ("out",))
def _contact_rows_op(
    slots: Tensor,
    filled: Tensor,
    facts: Tensor,
    pos: Tensor,
    vel: Tensor,
    facing: Tensor,
    hp: Tensor,
    heat: Tensor,
    stability: Tensor,
    fallen: Tensor,
    legged: Tensor,
    is_red: Tensor,
    hull: Tensor,
    slug_speed: Tensor,
    longest_side: float,
    half_gravity: float,
    speed_scale: float,
    out: Tensor,
) -> None:
    battles, mechs, count = slots.shape
    assert out.shape == (battles, mechs, count, width(CONTACT)), "one row a slot"
    launch(
        _contact_rows,
        battles,
        out.device,
        *(slots, filled, facts, pos, vel, facing, hp, heat, stability, fallen, legged, is_red, hull, slug_speed, out),
        *(longest_side, half_gravity, speed_scale),
        **{"tiny": TINY, "mechs": mechs, "count": count, "hulls": hull.shape[1], "features": out.shape[-1]},
        **{"detail": DETAIL, "intel": INTEL, "painted": PAINTED, **COLUMNS},
        lanes=triton.next_power_of_2(mechs * count),
        warps=4,
    )


@_contact_rows_op.register_fake
def _(*facts: Tensor | float) -> None:
    return None


@triton.jit
def atan2(y, x):  # type: ignore[no-untyped-def]
    """`exact.atan2_64`, rounded to float32."""
    y, x = y.to(tl.float64), x.to(tl.float64)
    wide, tall = tl.abs(x), tl.abs(y)
    steep = tall > wide
    longer = tl.where(steep, tall, wide)
    t = tl.where(steep, wide, tall) / tl.where(longer == 0, 1.0, longer)
    s = t * t
    # A coefficient by itself would be a float32.
    p = COEFFICIENTS[0] * s + COEFFICIENTS[1]
    for number in tl.static_range(2, TERMS):
        p = p * s + COEFFICIENTS[number]
    angle = t + t * s * p
    angle = tl.where(steep, 1.5707963267948966 - angle, angle)
    angle = tl.where(x < 0, 3.141592653589793 - angle, angle)
    return tl.where(y < 0, -angle, angle).to(tl.float32)


@triton.jit
def _put(out, row, at: tl.constexpr, value, features: tl.constexpr, is_shown, there):  # type: ignore[no-untyped-def]
    """Write a column; 0 where nobody is shown."""
    tl.store(out + row * features + at, tl.where(is_shown, value, 0.0), there)


@triton.jit
def _put_vector(  # type: ignore[no-untyped-def]
    out, row, at: tl.constexpr, x, y, z, c, s, scale, features: tl.constexpr, is_shown, there
):
    """Write a vector in the frame of who faces `c`, `s`: ahead, left, up."""
    _put(out, row, at, (x * c + y * s) / scale, features, is_shown, there)
    _put(out, row, at + 1, (y * c - x * s) / scale, features, is_shown, there)
    _put(out, row, at + 2, z / scale, features, is_shown, there)


@triton.jit
def _contact_rows(  # type: ignore[no-untyped-def]
    slots,
    filled,
    facts,
    pos,
    vel,
    facing,
    hp,
    heat,
    stability,
    fallen,
    legged,
    is_red,
    hull,
    slug_speed,
    out,
    longest_side,
    half_gravity,
    speed_scale,
    tiny: tl.constexpr,
    mechs: tl.constexpr,
    count: tl.constexpr,
    hulls: tl.constexpr,
    features: tl.constexpr,
    detail: tl.constexpr,
    intel: tl.constexpr,
    painted: tl.constexpr,
    at_rel_pos: tl.constexpr,
    at_rel_vel: tl.constexpr,
    at_rel_yaw_sin_cos: tl.constexpr,
    at_hp: tl.constexpr,
    at_heat: tl.constexpr,
    at_stability: tl.constexpr,
    at_fallen: tl.constexpr,
    at_legged: tl.constexpr,
    at_friendly: tl.constexpr,
    at_hostile: tl.constexpr,
    at_hull: tl.constexpr,
    at_painted: tl.constexpr,
    at_intel: tl.constexpr,
    at_detail: tl.constexpr,
    at_lead_pitch: tl.constexpr,
    at_closing: tl.constexpr,
    at_crossing: tl.constexpr,
    lanes: tl.constexpr,
):
    """The program of a battle: a lane for each slot of each viewer. Long because each column is told."""
    battle, lane = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there, viewer = lane < mechs * count, lane // count
    row = battle * (mechs * count) + lane
    is_shown = tl.load(filled + row, there, 0) != 0
    other = tl.load(slots + row, there, 0)
    one, them = battle * mechs + viewer, battle * mechs + other

    c, s = tl.load(facing + one * 2, there, 0.0), tl.load(facing + one * 2 + 1, there, 0.0)
    x = tl.load(pos + them * 3, there, 0.0) - tl.load(pos + one * 3, there, 0.0)
    y = tl.load(pos + them * 3 + 1, there, 0.0) - tl.load(pos + one * 3 + 1, there, 0.0)
    z = tl.load(pos + them * 3 + 2, there, 0.0) - tl.load(pos + one * 3 + 2, there, 0.0)
    vx = tl.load(vel + them * 3, there, 0.0) - tl.load(vel + one * 3, there, 0.0)
    vy = tl.load(vel + them * 3 + 1, there, 0.0) - tl.load(vel + one * 3 + 1, there, 0.0)
    vz = tl.load(vel + them * 3 + 2, there, 0.0) - tl.load(vel + one * 3 + 2, there, 0.0)
    _put_vector(out, row, at_rel_pos, x, y, z, c, s, longest_side, features, is_shown, there)
    _put_vector(out, row, at_rel_vel, vx, vy, vz, c, s, speed_scale, features, is_shown, there)
    fx, fy = tl.load(facing + them * 2, there, 0.0), tl.load(facing + them * 2 + 1, there, 0.0)
    turned, ahead = fy * c - fx * s, fx * c + fy * s
    _put(out, row, at_rel_yaw_sin_cos, tl.minimum(tl.maximum(turned, -1.0), 1.0), features, is_shown, there)
    _put(out, row, at_rel_yaw_sin_cos + 1, tl.minimum(tl.maximum(ahead, -1.0), 1.0), features, is_shown, there)

    distance, speed = length_3(x, y, z), length_3(vx, vy, vz)
    along = (x * vx + y * vy + z * vz) / tl.maximum(distance, tiny)
    crossing = tl.where(speed > tiny, 1.0 - tl.abs(along) / tl.maximum(speed, tiny), 0.0)
    _put(out, row, at_crossing, tl.maximum(crossing, 0.0), features, is_shown, there)
    _put(out, row, at_closing, tl.minimum(tl.maximum(-along / speed_scale, -1.0), 1.0), features, is_shown, there)
    flight_s = distance / tl.load(slug_speed + viewer, there, 1.0)
    pitch = atan2(z + half_gravity * (flight_s * flight_s), length_2(x, y))
    _put(out, row, at_lead_pitch, pitch / 0.7853981633974483, features, is_shown, there)

    fact = tl.load(facts + one * mechs + other, there, 0).to(tl.int32)
    in_detail, is_hostile = (
        (fact & detail) != 0,
        tl.load(is_red + other, there, 0) != tl.load(is_red + viewer, there, 0),
    )
    seen = is_shown & in_detail
    _put(out, row, at_hp, tl.load(hp + them, there, 0.0), features, seen, there)
    _put(out, row, at_heat, tl.load(heat + them, there, 0.0), features, seen, there)
    _put(out, row, at_stability, tl.load(stability + them, there, 0.0), features, seen, there)
    _put(out, row, at_detail, 1.0, features, seen, there)
    _put(out, row, at_fallen, 1.0, features, is_shown & (tl.load(fallen + them, there, 0) != 0), there)
    _put(out, row, at_legged, 1.0, features, is_shown & (tl.load(legged + them, there, 0) != 0), there)
    _put(out, row, at_friendly, 1.0, features, is_shown & ~is_hostile, there)
    _put(out, row, at_hostile, 1.0, features, is_shown & is_hostile, there)
    _put(out, row, at_painted, 1.0, features, is_shown & is_hostile & ((fact & painted) != 0), there)
    _put(out, row, at_intel, 1.0, features, is_shown & ((fact & intel) != 0), there)
    for kind in tl.static_range(hulls):
        _put(out, row, at_hull + kind, tl.load(hull + other * hulls + kind, there, 0.0), features, is_shown, there)
