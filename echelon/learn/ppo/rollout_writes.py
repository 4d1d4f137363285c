"""Writes of one decision into the buffers of a rollout: functions of tensors, which a GPU runs as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.runtime.compile import fused


def write_step(at: Tensor, leaves: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
    """Write `leaves [G, ...]` as step `at [1]` int64 of `buffers [T, G, ...]`, in their dtypes, in place."""
    for leaf, buffer in zip(leaves, buffers, strict=True):
        buffer.index_copy_(0, at, leaf.to(buffer.dtype)[None])


def on_device(function: Callable[..., None], device: torch.device) -> Callable[..., Any]:
    """`function` as a graph on a GPU; on a CPU itself."""
    return fused(function, device) if device.type == "cuda" else function
