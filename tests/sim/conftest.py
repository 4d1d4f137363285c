"""What tests of the simulation share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    """Nobody asks for gradients of a substep, whose operations take a sixth less time where torch keeps none."""
    with torch.inference_mode():
        yield
