"""Shared by the cases of pytest-benchmark: the device, and imports of neighbouring modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from echelon.runtime.device import resolve_device, use_device

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--device`, the device of all cases."""
    parser.addoption("--device", default="cpu", help="where the cases of benchmarks/ run: cpu, cuda, cuda:N or auto")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device of `--device`; a GPU has an index."""
    return use_device(resolve_device(request.config.getoption("--device")))
