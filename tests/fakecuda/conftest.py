"""Fixtures of tests on fake CUDA."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture
def mode() -> Iterator[FakeTensorMode]:
    """Return the fake tensor mode, with functions that need a driver replaced."""
    if torch.version.cuda is None:
        pytest.skip("needs a torch built with CUDA")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: use `pytest -m gpu`")
    if isinstance(torch.inference_mode, type):
        pytest.skip("run them alone: pytest -m fakecuda")
    # Import the package after inference mode is replaced.
    from echelon.arena.fingerprint import multipliers
    from fakecuda.fakes import without_a_driver

    with without_a_driver():
        yield FakeTensorMode()
    # Clear the caches by device, because tensors of two fake modes cannot be mixed.
    multipliers.cache_clear()


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch):
    """Return a function that sets gradients of parameters; `backward` would need a driver."""
    from fakecuda.fakes import put_gradients

    def put(parameters: list[nn.Parameter]) -> None:
        monkeypatch.setattr(torch.Tensor, "backward", put_gradients(parameters))

    return put
