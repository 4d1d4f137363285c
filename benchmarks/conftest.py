"""What the cases of pytest-benchmark share: the device, and the modules beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from echelon.runtime.device import resolve_device, use_device

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The device of every case."""
    parser.addoption("--device", default="cpu", help="where the cases of benchmarks/ run: cpu, cuda, cuda:N or auto")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """That of `--device`, a GPU with its index."""
    return use_device(resolve_device(request.config.getoption("--device")))
