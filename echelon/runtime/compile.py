"""How the simulation meets `torch.compile`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ON_CPU: dict[str, Any] = {"cpp_wrapper": True, "cpp.threads": 1}
"""One thread runs a graph from its first kernel to its last without holding Python's lock, so threads can share the
battles out: that scales, where sharing each loop of a kernel out costs more than it gives."""
ON_GPU: dict[str, Any] = {"reorder_for_locality": False, "combo_kernels": True}
"""Operations stay in their order: moved behind a kernel that changes the terrain in place, one that reads the terrain
as it was would cost a copy of all of it."""
RECOMPILE_LIMIT = 64
"""Graphs torch keeps of one function, by default 8: stages, evaluations and matches have shapes of their own."""


def keep_graphs() -> dict[str, Any]:
    """Arguments of `torch.compile` by which it keeps as many graphs of a function as there are shapes.

    A torch without such an argument (before 2.13) keeps them of all functions of this process from now on.
    """
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        return {"recompile_limit": RECOMPILE_LIMIT}
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
    return {}


def fused(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """`function` as one graph of fixed shapes, compiled when it is first called."""
    options = ON_CPU if device.type == "cpu" else ON_GPU
    return torch.compile(function, fullgraph=True, dynamic=False, options=options, **keep_graphs())


def materialize(values: Tensor) -> Tensor:
    """The same tensor. Compiled, it becomes a buffer in the order of its axes: else every reader works it out anew."""
    if not torch.compiler.is_compiling():
        return values
    values = values.contiguous()
    return values.as_strided(values.shape, values.stride())


def axes(vectors: Tensor) -> tuple[Tensor, ...]:
    """Vectors `[..., D]` as D tensors `[...]`, each contiguous, so that a CPU reads the same axis of many at once."""
    return materialize(vectors.movedim(-1, 0)).unbind(0)
