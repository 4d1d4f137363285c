"""Headings, body frames and pairwise offsets."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.runtime import exact

TINY = 1e-6
"""The one guard against dividing by a zero length."""


def wrap_angle(angle_rad: Tensor) -> Tensor:
    """The same angle within [-pi, pi]: the wrap of the simulation, which leaves an angle in these limits as it is.

    Loops compute it as `sim.loops.arithmetic.wrap_angle`, with the same bits. Replays keep angles in [-pi, pi) and have
    the wrap of their files, `replay.moments.wrapped`.
    """
    return angle_rad - 2 * math.pi * torch.round(exact.divide(angle_rad, 2 * math.pi))


def heading(yaw_rad: Tensor) -> Tensor:
    """`[..., 2]` unit vector a mech faces; yaw 0 is +x, positive is counter-clockwise."""
    return exact.cos_sin(yaw_rad)


def up(device: torch.device) -> Tensor:
    """`[3]` bool, true along z: a factor or a mask."""
    return torch.arange(3, device=device) == 2


def into_frame(x: Any, y: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """How far ahead and to the left of a facing a vector leads; of tensors, and of the numbers of a loop."""
    return x * cos + y * sin, y * cos - x * sin


def out_of_frame(ahead: Any, left: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """x and y of a vector that is told by `into_frame`."""
    return ahead * cos - left * sin, ahead * sin + left * cos


def to_body(vector_xy: Tensor, facing: Tensor) -> Tensor:
    """World `[..., 2]` vectors in the frame of `facing [..., 2]`: first number ahead, second to the left."""
    return torch.stack(into_frame(*vector_xy.unbind(-1), *facing.unbind(-1)), -1)


def to_world(vector_body: Tensor, facing: Tensor) -> Tensor:
    return torch.stack(out_of_frame(*vector_body.unbind(-1), *facing.unbind(-1)), -1)


def in_body_frame(offset: Tensor, facing: Tensor) -> Tensor:
    """World `[B, N, K, 3]` vectors in the frame of mechs that face `facing [B, N, 2]`: ahead, left, up."""
    view = facing[:, :, None].expand_as(offset[..., :2])
    return torch.cat((to_body(offset[..., :2], view), offset[..., 2:]), -1)


def pairwise_offset(pos: Tensor) -> Tensor:
    """`[B, N, N, D]`: entry (i, j) leads from mech i to mech j, for positions `[B, N, D]`."""
    return pos[:, None] - pos[:, :, None]


def dot(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """The inner product of vectors whose axes are tensors of their own."""
    products = [a * b for a, b in zip(one, other, strict=True)]
    return functools.reduce(torch.add, products)


def length_sq(vector: Tensor) -> Tensor:
    components = vector.unbind(-1)
    return dot(components, components)


def length(vector: Tensor) -> Tensor:
    return exact.sqrt(length_sq(vector))


def unit(vector: Tensor) -> Tensor:
    """Vectors of length one over the last axis; a zero vector stays zero."""
    return vector / length(vector).clamp_min(TINY)[..., None]


def either(holds: Tensor, yes: float, no: float) -> Tensor:
    """float32 `yes` where `holds`, else `no`. `torch.where` of two numbers is of torch's default dtype, a user's."""
    return torch.where(holds, yes, torch.full((), no, dtype=torch.float32, device=holds.device))
