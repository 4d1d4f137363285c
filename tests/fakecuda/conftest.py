"""Fixtures of tests on fake CUDA."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture
def mode() -> Iterator[FakeTensorMode]:
    """The mode that holds fake tensors, without what asks for a driver."""
    if torch.version.cuda is None:
        pytest.skip("needs a torch built with CUDA")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: `pytest -m gpu` asks it")
    if isinstance(torch.inference_mode, type):
        pytest.skip("run them alone: pytest -m fakecuda")
    # Imports the package, which must find inference mode replaced.
    from echelon.arena.fingerprint import multipliers
    from fakecuda.fakes import without_a_driver

    with without_a_driver():
        yield FakeTensorMode()
    # Kept for each device: the next test's mode cannot be mixed with tensors of this one.
    multipliers.cache_clear()


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch):
    """Called with parameters: puts gradients on them in place of `backward`, which asks for a driver's context."""
    from fakecuda.fakes import put_gradients

    def put(parameters: list[nn.Parameter]) -> None:
        monkeypatch.setattr(torch.Tensor, "backward", put_gradients(parameters))

    return put
