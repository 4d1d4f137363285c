"""How the simulation meets `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from echelon.runtime.device import can_compile

ON_CPU: dict[str, Any] = {"cpp_wrapper": True, "cpp.threads": 1}
"""One thread runs a graph from its first kernel to its last without holding Python's lock, so threads can share the
battles out: that scales, where sharing each loop of a kernel out costs more than it gives."""
ON_GPU: dict[str, Any] = {"reorder_for_locality": False, "combo_kernels": True}
"""Operations stay in their order: moved behind a kernel that changes the terrain in place, one that reads the terrain
as it was would cost a copy of all of it."""
RECOMPILE_LIMIT = 64
"""Graphs torch keeps of one function, by default 8: stages, evaluations and matches have shapes of their own."""


def keep_graphs() -> None:
    """Let torch keep as many graphs of a function as there are shapes, in this process."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)


def fused(
    function: Callable[..., Any], device: torch.device, on_cpu: dict[str, Any] | None = ON_CPU
) -> Callable[..., Any]:
    """`function` as one graph of fixed shapes, compiled when it is first called; itself where nothing can be compiled.

    Args:
        function: what reads and returns tensors.
        device: where they are.
        on_cpu: options of Inductor on a CPU; None for torch's own.
    """
    if not can_compile(device):
        return function
    keep_graphs()
    options = on_cpu if device.type == "cpu" else ON_GPU
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)


def materialize(values: Tensor) -> Tensor:
    """The same tensor. Compiled, it becomes a buffer in the order of its axes: else every reader works it out anew."""
    if not torch.compiler.is_compiling():
        return values
    values = values.contiguous()
    return values.as_strided(values.shape, values.stride())


def axes(vectors: Tensor) -> tuple[Tensor, ...]:
    """Vectors `[..., D]` as D tensors `[...]`, each contiguous, so that a CPU reads the same axis of many at once."""
    return materialize(vectors.movedim(-1, 0)).unbind(0)
