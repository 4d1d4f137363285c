"""What the machine offers: devices, and a compiler for torch.compile."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import torch

from echelon.runtime.errors import ConfigError


def resolve_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; else `cpu`, `cuda` or `cuda:N`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()) or (kind == "cpu" and index):
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device must be one of this machine's {torch.cuda.device_count()} CUDA GPUs, got {name!r}")
    return torch.device(name)


def can_compile() -> bool:
    """Whether torch.compile finds what it needs here: a C++ compiler and Python's headers."""
    compilers = (os.environ.get("CXX", ""), "g++", "clang++")
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return headers.exists() and any(name and shutil.which(name) for name in compilers)
