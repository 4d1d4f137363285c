"""What kernels on a GPU know of the ground: cells that segments enter, hulls against bit columns. Needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def clamped(value, least, most):  # type: ignore[no-untyped-def]
    """`value` within `least..most`."""
    return tl.minimum(tl.maximum(value, least), most)


@triton.jit
def segment_axis(at, to, last):  # type: ignore[no-untyped-def]
    """`segments` along one axis: begin, length, first cell, sign, steps; `last` is the last cell of the axis."""
    first = clamped(tl.floor(at), 0.0, last)
    steps = tl.abs(clamped(tl.floor(to), 0.0, last) - first)
    descends = to < at
    begin = tl.where(descends, first + 1.0 - at, at - first)
    return begin, tl.abs(to - at), first, tl.where(descends, -1.0, 1.0), steps


@triton.jit
def cells_gone(t, begin, length, steps):  # type: ignore[no-untyped-def]
    """Cells that segments have advanced along an axis at the fraction `t` of the way."""
    return tl.minimum(tl.floor(begin + t * length), steps)


@triton.jit
def _enters(columns, x, y, z, asked, size_x):  # type: ignore[no-untyped-def]
    """Whether the voxels `x`, `y`, `z` block."""
    found = tl.load(columns + y.to(tl.int32) * size_x + x.to(tl.int32), asked, 0)
    return asked & (((found >> z.to(tl.int32)) & 1) == 1)


@triton.jit
def first_hit(  # type: ignore[no-untyped-def]
    columns,
    from_x,
    from_y,
    from_z,
    to_x,
    to_y,
    to_z,
    asked,
    planes,
    past_end: tl.constexpr,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
):
    """`kernels.first_hit` of some segments of one battle, in its `columns [Y, X]`; `planes` is the most of any axis."""
    ab, al, ac, ag, an = segment_axis(from_x, to_x, size_x - 1.0)
    bb, bl, bc, bg, bn = segment_axis(from_y, to_y, size_y - 1.0)
    cb, cl, cc, cg, cn = segment_axis(from_z, to_z, top_z)
    total = an + bn + cn
    best = tl.where(asked, float("inf"), float("inf"))
    longest = tl.max(tl.where(asked, tl.maximum(tl.maximum(an, bn), cn), 0.0), 0).to(tl.int32)
    for count in range(1, tl.minimum(longest, planes) + 1):
        t = tl.minimum((count - ab) / tl.maximum(al, tiny), 1.0)
        b, c = cells_gone(t, bb, bl, bn), cells_gone(t, cb, cl, cn)
        goes = asked & (count <= an) & (t < best)
        if not past_end:
            goes = goes & (count + b + c != total)
        best = tl.where(_enters(columns, ac + ag * count, bc + bg * b, cc + cg * c, goes, size_x), t, best)
        t = tl.minimum((count - bb) / tl.maximum(bl, tiny), 1.0)
        a, c = cells_gone(t, ab, al, an), cells_gone(t, cb, cl, cn)
        goes = asked & (count <= bn) & (t < best)
        if not past_end:
            goes = goes & (a + count + c != total)
        best = tl.where(_enters(columns, ac + ag * a, bc + bg * count, cc + cg * c, goes, size_x), t, best)
        t = tl.minimum((count - cb) / tl.maximum(cl, tiny), 1.0)
        a, b = cells_gone(t, ab, al, an), cells_gone(t, bb, bl, bn)
        goes = asked & (count <= cn) & (t < best)
        if not past_end:
            goes = goes & (a + b + count != total)
        best = tl.where(_enters(columns, ac + ag * a, bc + bg * b, cc + cg * count, goes, size_x), t, best)
    return best


@triton.jit
def height_bits(z, half):  # type: ignore[no-untyped-def]
    """`terrain.height_bits`."""
    first = clamped(tl.floor(z - half).to(tl.int32), 0, 30)
    last = clamped(tl.ceil(z + half).to(tl.int32) - 1, 0, 30)
    one = first * 0 + 1
    return (one << (last + 1)) - (one << first)


@triton.jit
def hits_terrain(  # type: ignore[no-untyped-def]
    columns, x, y, z, half_x, half_y, half_z, asked, size_x: tl.constexpr, size_y: tl.constexpr, widest: tl.constexpr
):
    """`kernels.hits_terrain` of the hulls of one battle, in its `columns [Y, X]`."""
    tall = height_bits(z, half_z)
    first_x, last_x = tl.floor(x - half_x).to(tl.int32), tl.ceil(x + half_x).to(tl.int32) - 1
    first_y, last_y = tl.floor(y - half_y).to(tl.int32), tl.ceil(y + half_y).to(tl.int32) - 1
    hit = tall * 0
    for row in range(widest):
        cell_y = clamped(first_y + row, 0, size_y - 1)
        for column in range(widest):
            here = asked & (first_y + row <= last_y) & (first_x + column <= last_x)
            cell_x = clamped(first_x + column, 0, size_x - 1)
            hit |= tl.load(columns + cell_y * size_x + cell_x, here, 0) & tall
    return asked & (hit != 0)


@triton.jit
def half_turn_rounded(value):  # type: ignore[no-untyped-def]
    """Float64 rounded to a whole number, as `exact.TO_WHOLE` rounds it."""
    return (value + 6755399441055744.0) - 6755399441055744.0


@triton.jit
def sine(angle, lead: tl.constexpr):  # type: ignore[no-untyped-def]
    """`exact.sine_64`, rounded to float32."""
    x = angle.to(tl.float64)
    half_turns = half_turn_rounded(x * 0.3183098861837907 + lead)
    x = (x - (half_turns - lead) * 3.1415926534682512) - (half_turns - lead) * 1.2154201013012384e-10
    odd = half_turns - 2 * half_turn_rounded(half_turns * 0.5)
    s = x * x
    p = 1.5502454316596913e-10 * s - 2.503674197012488e-08
    p = p * s + 2.7557123116044156e-06
    p = p * s - 0.00019841268708606193
    p = p * s + 0.008333333330939175
    p = p * s - 0.1666666666665846
    return ((1 - 2 * odd * odd) * (x + x * s * p)).to(tl.float32)


@triton.jit
def length_2(x, y):  # type: ignore[no-untyped-def]
    """`geometry.length` of vectors of two."""
    return tl.sqrt_rn(x * x + y * y)


@triton.jit
def length_3(x, y, z):  # type: ignore[no-untyped-def]
    """`geometry.length` of vectors of three."""
    return tl.sqrt_rn(x * x + y * y + z * z)
