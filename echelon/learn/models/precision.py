"""Precision, determinism and compilation of the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch
from tensordict import set_lazy_legacy
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode

from echelon.runtime.shared_modes import full_products, kept_generators

CPU_FACTS = Path("/proc/cpuinfo")
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""Environment variable that makes matrix products deterministic on a GPU."""


def has_native_bf16(device: torch.device) -> bool:
    """Return whether the device has bfloat16 matrix instructions; without them bf16 is not faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpu_info = CPU_FACTS.read_text() if CPU_FACTS.exists() else ""
    return "avx512_bf16" in cpu_info or "amx_bf16" in cpu_info


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of matrix products for a value of `TrainConfig.precision` on a device."""
    reduced = name == "bf16" or (name == "auto" and has_native_bf16(device))
    return torch.bfloat16 if reduced else torch.float32


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Return a context with matrix products in `dtype`; a null context for float32."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


@contextmanager
def training_process(deterministic: bool, device: torch.device) -> Iterator[None]:
    """Set up the process for training in a context, and restore all settings afterwards.

    Inside the context, gradients are on, the caller's autocast is off, actions are sampled, TorchRL's recurrent mode
    and lazy stacks are off, algorithms are deterministic or the fastest, and torch's generator may be seeded. Without
    the context, a compiled TorchRL loss may leave the process in deterministic exploration and in recurrent mode.

    Args:
        deterministic: as in `TrainConfig`; False keeps deterministic algorithms that the caller has enabled.
        device: device of the training.

    Raises:
        ConfigError: if another thread of the process trains.
    """
    with kept_generators(device, trains=True), _modes(deterministic, device):
        yield


@contextmanager
def _modes(deterministic: bool, device: torch.device) -> Iterator[None]:
    """Like `training_process`, but without the handling of torch's generators."""
    were_deterministic = torch.are_deterministic_algorithms_enabled()
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(CUBLAS_WORKSPACE)
    # Disable the autocast cache: within a caller's autocast, it would return old casts of updated weights.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False, cache_enabled=False),
        set_exploration_type(ExplorationType.RANDOM),
        set_recurrent_mode(False),
        set_lazy_legacy(False),
        full_products(device),
    ):
        try:
            if deterministic:
                os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")
                torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = not (deterministic or were_deterministic)
            yield
        finally:
            torch.use_deterministic_algorithms(were_deterministic, warn_only=warns_only)
            torch.backends.cudnn.benchmark = benchmark
            if deterministic and workspace is None:
                os.environ.pop(CUBLAS_WORKSPACE, None)
