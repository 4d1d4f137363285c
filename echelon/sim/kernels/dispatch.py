"""Shared code of operations that have a dense and a loop implementation.

Each file of `sim/kernels` and `env/kernels` defines one operation `X`: `X` dispatches by device, `X_dense` consists of
torch operations over whole tensors, and `X_loops` runs `_X_loop`, compiled by numba, which skips irrelevant elements
and stops early. Both implementations return bit-identical results. Without numba the dense one runs everywhere.
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

from echelon.runtime.exact import HAS_NUMBA


def wants_triton() -> bool:
    """Whether kernels of Triton run on a GPU in place of the dense forms: where `ECHELON_TRITON=1` asks for them.

    They contract products and sums, so that battles are not those of the dense forms to the bit.
    """
    return os.environ.get("ECHELON_TRITON") == "1" and importlib.util.find_spec("triton") is not None


HAS_TRITON = wants_triton()
HAS_LOOPS = HAS_NUMBA
"""Whether the loop implementations exist."""
ZERO, HALF, ONE, INFINITY = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(np.inf)
"""float32 constants, so that loops do not compute in float64."""

if HAS_LOOPS:
    import numba


def hash_of(files: Sequence[Path]) -> str:
    """16 hexadecimal digits of the contents of some files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


PACKAGE = Path(__file__).parents[2]
SHARED = [PACKAGE / "runtime" / name for name in ("exact.py", "geometry.py", "noise.py")]
SOURCES = sorted([*PACKAGE.glob("*/kernels/*.py"), *PACKAGE.glob("*/loops/*.py"), *SHARED])
"""Every file that compiled code may come from."""
CACHE = Path(os.environ.get("NUMBA_CACHE_DIR", Path(__file__).parent / "__pycache__")) / f"loops_{hash_of(SOURCES)}"
"""Where compiled loops are kept. numba looks for changes in a loop's own file alone, and would go on with what it once
inlined from another one; another hash is another folder."""


OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""How all loops are compiled. Without numba's runtime (`_nrt`) nothing in them counts references to arrays, which took
40 % of a decision. Nor can they allocate memory: their callers pass scratch memory, and numba refuses what would. No
wrapper for callers in C is made."""


def compiled(loop: Any) -> Any:
    """Decorator that compiles a loop called from Python. Without numba it returns the loop, which is never called."""
    if not HAS_LOOPS:
        return loop
    settings: Any = numba.config
    before = settings.CACHE_DIR
    # Read as a function is decorated; where the folder cannot be written numba chooses another one.
    settings.CACHE_DIR = str(CACHE)
    try:
        return numba.njit(cache=True, nogil=True, **OPTIONS)(loop)
    finally:
        settings.CACHE_DIR = before


def is_cached(loop: str) -> bool:
    """Whether a compiled loop of this name is on disk. Another kind of processor may have left it there."""
    return any(CACHE.glob(f"**/*{loop}*.nbc"))


def called(function: Any) -> Any:
    """Decorator for a function that is called by compiled loops only. It is compiled once for all callers, which LLVM
    inlines it into; numba's own inlining took longer to compile and made nothing faster."""
    options = {**OPTIONS, "no_cpython_wrapper": True}
    return numba.njit(**options)(function) if HAS_LOOPS else function


def loops_on(device: torch.device) -> bool:
    """Whether the loop implementations run on this device."""
    return HAS_LOOPS and device.type == "cpu"


def array(values: Tensor) -> Any:
    """The values of a CPU tensor as a contiguous NumPy array for a loop to read: a copy if they are not contiguous.

    Because all arrays are contiguous, each loop is compiled for a single signature.
    """
    return values.detach().contiguous().numpy()


def shared_array(values: Tensor) -> Any:
    """The memory of a CPU tensor as a NumPy array for a loop to write to, never a copy."""
    return values.detach().numpy()
