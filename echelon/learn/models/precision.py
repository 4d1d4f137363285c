"""In which numbers the network is computed, what is compiled, and what must repeat."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import nn

CPU_FACTS = Path("/proc/cpuinfo")


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the chip has instructions that multiply matrices of bfloat16, so that they pay."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    facts = CPU_FACTS.read_text() if CPU_FACTS.exists() else ""
    return "avx512_bf16" in facts or "amx_bf16" in facts


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """The dtype that `TrainConfig.precision` means on a device."""
    reduced = name == "bf16" or (name == "auto" and multiplies_bf16(device))
    return torch.bfloat16 if reduced else torch.float32


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Compute matrix products in `dtype`; nothing changes for float32."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def configure_backends(deterministic: bool) -> None:
    """Choose between sums that repeat and sums that are fastest, for the whole process."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic


def compile_module(module: nn.Module) -> None:
    """Compile a module's forward in place: one graph, static shapes. Its parameters keep their names."""
    module.compile(fullgraph=True, dynamic=False)
