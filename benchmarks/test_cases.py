"""The cases of `cases.py` under pytest-benchmark: `pytest benchmarks --benchmark-only [--device cuda]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import CASES
from measure import once


@pytest.mark.parametrize("name", CASES)
def test_case(device: torch.device, tmp_path: Path, benchmark: Any, name: str) -> None:
    case = CASES[name](device, tmp_path)
    case()  # compiles and allocates buffers
    benchmark(once, case, device)
