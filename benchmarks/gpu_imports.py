"""Check that all packages for the steps of `gpu.py` can be imported, and run it; `gpu.sh` calls this."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

NEEDED = ("torch", "torchrl", "tensordict", "numpy", "numba", "tyro", "rich", "pytest", "pytest_benchmark", "echelon")


def broken_imports() -> dict[str, str]:
    """Return the packages that cannot be imported, with the reason."""
    errors = {}
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except Exception as error:
            errors[name] = str(error).partition("\n")[0]
    return errors


if __name__ == "__main__":
    if broken := broken_imports():
        told = ", ".join(f"{name} ({why})" for name, why in broken.items())
        sys.exit(
            f"error: {sys.executable} cannot import {told}; install `.[test]` as the README says, or run"
            " benchmarks/gpu_first.py, which needs neither tyro nor rich"
        )
    runpy.run_path(str(Path(__file__).with_name("gpu.py")), run_name="__main__")
