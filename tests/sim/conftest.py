"""Fixtures of the simulation tests."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    """Run tests in inference mode: without gradients, the operations of a substep take a sixth less time."""
    with torch.inference_mode():
        yield
