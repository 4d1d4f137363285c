"""Precision, determinism and compilation of the network."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from echelon.runtime.compile import fused

if TYPE_CHECKING:
    from echelon.learn.models.actor_critic import ActorCritic

CPU_FACTS = Path("/proc/cpuinfo")


def has_native_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for bfloat16 matrix products, without which bf16 is not faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    facts = CPU_FACTS.read_text() if CPU_FACTS.exists() else ""
    return "avx512_bf16" in facts or "amx_bf16" in facts


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """Dtype of matrix products for a value of `TrainConfig.precision` on a device."""
    reduced = name == "bf16" or (name == "auto" and has_native_bf16(device))
    return torch.bfloat16 if reduced else torch.float32


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Context in which matrix products are computed in `dtype`; a null context for float32."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def configure_policy(policy: ActorCritic, precision: str, compiled: str, device: torch.device) -> None:
    """Set the precision of a policy's matrix products, and compile the pass of one decision.

    Both learn and act through `policy.network`: its `compute` is the dtype of autocast; memory, heads, distributions
    and losses stay float32. With `all`, `PPO` compiles its loss, and with that the pass of whole sequences.

    Args:
        precision, compiled: values of `TrainConfig.precision` and `TrainConfig.compile_policy`.
        device: where it runs; `auto` is bfloat16 where that has instructions for it.
    """
    network = policy.network
    network.compute = resolve_precision(precision, device)
    if compiled != "off":
        policy.act = fused(network.forward, device, on_cpu=None)


def configure_backends(deterministic: bool) -> None:
    """Select deterministic or fastest algorithms for the whole process."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
