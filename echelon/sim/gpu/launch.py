"""How kernels on a GPU are launched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from echelon.sim.kernels.dispatch import HAS_TRITON

STEPS = 1
"""Warps of a program: a battle's mechs, shots or pairs are few."""


def runs_on(device: torch.device) -> bool:
    """Whether the kernels of this room run on a device."""
    return HAS_TRITON and device.type == "cuda"


def launch(
    kernel: Any,
    battles: int | tuple[int, int],
    device: torch.device,
    *arguments: Any,
    warps: int = STEPS,
    **sizes: Any,
) -> None:
    """Run a program of a kernel for each battle, or for each of so many parts of a battle. Tensors must be contiguous,
    but for those of a tuple."""
    for argument in arguments:
        assert not isinstance(argument, Tensor) or argument.is_contiguous()
    # Triton runs on the current GPU, which that of the battles may not be.
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[battles if isinstance(battles, tuple) else (battles,)](*arguments, **sizes, num_warps=warps)


def operator(name: str, mutates: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: a function that launches a kernel as an operation of torch's, which graphs and fake tensors know."""
    return lambda function: torch.library.custom_op(f"echelon::{name}", function, mutates_args=mutates)
