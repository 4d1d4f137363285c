"""`SetEncoder` without gradients as one kernel: what it makes of each member is never written. Needs Triton."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 128
"""Rows of a program: members of some sets, padded to a power of two each."""


def encode_set(members: Tensor, mask: Tensor, weights: tuple[Tensor, ...], compute: torch.dtype) -> Tensor:
    """`[R, 2 * W]` in the dtype `compute`, as `SetEncoder` makes it of `members [R, C, F]` and `mask [R, C]`.

    Args:
        weights: `[W, F]`, `[W]`, `[W, W]` and `[W]` of the two layers; W is a power of two, 16 at least.
        compute: dtype of the matrix products, which add up in float32.
    """
    given = (tensor.detach().contiguous() for tensor in (members, mask, *weights))
    found: Tensor = _encode_set_op(*given, compute)
    return found


@torch.library.custom_op("echelon::encode_set", mutates_args=())
def _encode_set_op(
    members: Tensor,
    mask: Tensor,
    weight_in: Tensor,
    bias_in: Tensor,
    weight: Tensor,
    bias: Tensor,
    compute: torch.dtype,
) -> Tensor:
    (sets, count, features), width = members.shape, len(bias)
    pooled = members.new_empty((sets, 2 * width), dtype=compute)
    padded = triton.next_power_of_2(count)
    together = max(1, LANES // padded)
    # Triton runs on the current GPU, which that of the sets may not be.
    with torch.cuda.device(members.device) if members.device.type == "cuda" else contextlib.nullcontext():
        launcher[triton.cdiv(sets, together),](
            *(members, mask, weight_in, bias_in, weight, bias, pooled, sets),
            **{"count": count, "features": features, "width": width, "padded": padded, "together": together},
            depth=max(16, triton.next_power_of_2(features)),
            is_reduced=compute == torch.bfloat16,
            # Triton's interpreter multiplies no bfloat16.
            is_interpreted=members.device.type == "cpu",
            num_warps=4,
        )
    return pooled


@_encode_set_op.register_fake
def _(members: Tensor, mask: Tensor, weight_in: Tensor, bias_in: Tensor, *rest: Any) -> Tensor:
    return members.new_empty((members.shape[0], 2 * bias_in.shape[0]), dtype=rest[-1])


@_encode_set_op.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Tensor, int]:
    """Sets of several networks, one network after the other."""

    def of(number: int) -> list[Any]:
        pairs = zip(arguments, in_dims, strict=True)
        return [value if axis is None else value.select(axis, number).contiguous() for value, axis in pairs]

    return torch.stack([_encode_set_op(*of(number)) for number in range(info.batch_size)]), 0


@triton.jit
def _layer(rows, weight, bias, is_reduced: tl.constexpr, is_interpreted: tl.constexpr):  # type: ignore[no-untyped-def]
    """ReLU(rows @ weight + bias) in float32, rounded to bfloat16 where a layer of torch's would be."""
    if is_reduced:
        rows, weight = rows.to(tl.bfloat16), weight.to(tl.bfloat16)
        bias = bias.to(tl.bfloat16).to(tl.float32)
        if is_interpreted:
            product = tl.dot(rows.to(tl.float32), weight.to(tl.float32), input_precision="ieee")
        else:
            product = tl.dot(rows, weight)
        made = (product + bias[None, :]).to(tl.bfloat16).to(tl.float32)
    else:
        made = tl.dot(rows.to(tl.float32), weight.to(tl.float32), input_precision="ieee") + bias[None, :]
    return tl.maximum(made, 0.0)


@triton.jit
def _encode_set(  # type: ignore[no-untyped-def]
    members,
    mask,
    weight_in,
    bias_in,
    weight,
    bias,
    pooled,
    sets,
    count: tl.constexpr,
    features: tl.constexpr,
    width: tl.constexpr,
    padded: tl.constexpr,
    together: tl.constexpr,
    depth: tl.constexpr,
    is_reduced: tl.constexpr,
    is_interpreted: tl.constexpr,
):
    """The program of `together` sets."""
    lane, feature, unit = tl.arange(0, together * padded), tl.arange(0, depth), tl.arange(0, width)
    at, member = tl.program_id(0).to(tl.int64) * together + lane // padded, lane % padded
    there = (at < sets) & (member < count)
    row = at * count + member
    known = feature < features
    given = tl.load(members + row[:, None] * features + feature[None, :], there[:, None] & known[None, :], 0.0)
    into = tl.load(weight_in + unit[None, :] * features + feature[:, None], known[:, None], 0.0)
    onward = tl.load(weight + unit[None, :] * width + unit[:, None])
    hidden = _layer(given, into, tl.load(bias_in + unit), is_reduced, is_interpreted)
    each = _layer(hidden, onward, tl.load(bias + unit), is_reduced, is_interpreted)
    valid = tl.load(mask + row, there, 0) != 0
    each = tl.where(valid[:, None], each, 0.0)
    by_set = tl.reshape(each, (together, padded, width))
    number = tl.sum(tl.reshape(valid.to(tl.float32), (together, padded)), 1)
    total, largest = tl.sum(by_set, 1), tl.max(by_set, 1)
    if is_reduced:
        total = total.to(tl.bfloat16).to(tl.float32)
    mean = total / tl.maximum(number, 1.0)[:, None]
    own = tl.program_id(0).to(tl.int64) * together + tl.arange(0, together)
    place = pooled + own[:, None] * (2 * width) + unit[None, :]
    kept = (own < sets)[:, None] & (unit < width)[None, :]
    tl.store(place, mean.to(pooled.dtype.element_ty), kept)
    tl.store(place + width, largest.to(pooled.dtype.element_ty), kept)


launcher: Any = _encode_set
"""What is launched."""
