"""What operations with a dense form and a loop form share: which of the two runs where, and how loops see tensors.

Each file of `sim/kernels` and `env/kernels` holds one operation `X` under three names: `X` decides by device, `X_dense`
computes everything at once with torch operations, and `X_loops` runs `_X_loop`, compiled by numba, which visits only
what matters and stops early. Both forms return the same bits. Without numba the dense form runs everywhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

HAS_LOOPS = importlib.util.find_spec("numba") is not None
"""Whether loops can be compiled."""
ZERO, HALF, ONE, INFINITY = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)
"""float32, so that loops do not compute in float64."""

if HAS_LOOPS:
    import numba


def hash_of(files: Sequence[Path]) -> str:
    """16 hexadecimal digits of the contents of some files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


PACKAGE = Path(__file__).parents[2]
SOURCES = sorted([*PACKAGE.glob("*/kernels/*.py"), PACKAGE / "runtime" / "exact.py"])
"""Every file that compiled code may come from."""
CACHE = Path(os.environ.get("NUMBA_CACHE_DIR", Path(__file__).parent / "__pycache__")) / f"loops_{hash_of(SOURCES)}"
"""Where compiled loops are kept. numba looks for changes in a loop's own file alone, and would go on with what it once
inlined from another one; another hash is another folder."""


def compiled(loop: Any) -> Any:
    """Decorator of a loop that Python calls. Without numba the loop stays as it is, and nothing calls it."""
    if not HAS_LOOPS:
        return loop
    settings: Any = numba.config
    before = settings.CACHE_DIR
    # Read as a function is decorated; where the folder cannot be written numba chooses another one.
    settings.CACHE_DIR = str(CACHE)
    try:
        return numba.njit(cache=True, nogil=True)(loop)
    finally:
        settings.CACHE_DIR = before


def inlined(function: Any) -> Any:
    """Decorator of a function that only compiled loops call."""
    return numba.njit(inline="always")(function) if HAS_LOOPS else function


def loops_on(device: torch.device) -> bool:
    """Whether the loop forms run on a device."""
    return HAS_LOOPS and device.type == "cpu"


def array(values: Tensor) -> Any:
    """The values of a CPU tensor as a NumPy array, for a loop to read: a copy where they are not contiguous.

    A CPU tensor is in host memory already, so nothing is waited for. All arrays being contiguous, each loop is compiled
    once, by the thread that runs it first.
    """
    return values.detach().contiguous().numpy()


def shared_array(values: Tensor) -> Any:
    """The memory of a CPU tensor as a NumPy array, for a loop to write to: never a copy."""
    return values.detach().numpy()
