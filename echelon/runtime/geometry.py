"""Headings, body frames and pairwise offsets."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.runtime import exact

TINY = 1e-6
"""Minimum length, against division by zero."""


def wrap_angle(angle_rad: Tensor) -> Tensor:
    """Wrap an angle to [-pi, pi]. Angles in these limits do not change.

    `sim.loops.arithmetic.wrap_angle` is the numba version of this function, with the same bits. Replays store angles in
    [-pi, pi) and use `replay.moments.wrapped`.
    """
    return angle_rad - 2 * math.pi * torch.round(exact.divide(angle_rad, 2 * math.pi))


def heading(yaw_rad: Tensor) -> Tensor:
    """Return the unit vector of a heading, `[..., 2]`. Yaw 0 is +x, and positive yaw is counter-clockwise."""
    return exact.cos_sin(yaw_rad)


def up(device: torch.device) -> Tensor:
    """Return the z axis as a `[3]` bool tensor, for use as a factor or a mask."""
    return torch.arange(3, device=device) == 2


def into_frame(x: Any, y: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Return the components of a vector ahead and to the left of a heading. Works on tensors and on scalars in numba
    loops."""
    return x * cos + y * sin, y * cos - x * sin


def out_of_frame(ahead: Any, left: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Return x and y of a vector, given its components ahead and to the left: the inverse of `into_frame`."""
    return ahead * cos - left * sin, ahead * sin + left * cos


def to_body(vector_xy: Tensor, facing: Tensor) -> Tensor:
    """Transform world vectors `[..., 2]` to components ahead and to the left of the headings `facing [..., 2]`."""
    return torch.stack(into_frame(*vector_xy.unbind(-1), *facing.unbind(-1)), -1)


def to_world(vector_body: Tensor, facing: Tensor) -> Tensor:
    """Transform vectors `[..., 2]`, given as components ahead and to the left of headings `facing [..., 2]`, to world
    vectors."""
    return torch.stack(out_of_frame(*vector_body.unbind(-1), *facing.unbind(-1)), -1)


def in_body_frame(offset: Tensor, facing: Tensor) -> Tensor:
    """Transform world vectors `[B, N, K, 3]` to components ahead, left and up of mechs with the headings
    `facing [B, N, 2]`."""
    view = facing[:, :, None].expand_as(offset[..., :2])
    return torch.cat((to_body(offset[..., :2], view), offset[..., 2:]), -1)


def pairwise_offset(pos: Tensor) -> Tensor:
    """Return the vectors from mech i to mech j, `[B, N, N, D]`, for positions `[B, N, D]`."""
    return pos[:, None] - pos[:, :, None]


def dot(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """Return the inner product of two vectors, each given as one tensor per axis."""
    products = [a * b for a, b in zip(one, other, strict=True)]
    return functools.reduce(torch.add, products)


def length_sq(vector: Tensor) -> Tensor:
    components = vector.unbind(-1)
    return dot(components, components)


def length(vector: Tensor) -> Tensor:
    return exact.sqrt(length_sq(vector))


def unit(vector: Tensor) -> Tensor:
    """Normalize vectors along the last axis; a zero vector stays zero."""
    return vector / length(vector).clamp_min(TINY)[..., None]


def either(holds: Tensor, yes: float, no: float) -> Tensor:
    """Return a float32 tensor with `yes` where `holds` is True, else `no`. `torch.where` of two numbers would use
    torch's default dtype."""
    return torch.where(holds, yes, torch.full((), no, dtype=torch.float32, device=holds.device))
