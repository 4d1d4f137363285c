"""Settings of every test."""

import contextlib
import signal
from collections.abc import Iterator

import pytest
import torch

# A test makes many small operations: on shared cores, threads that wait for each other cost more than they save.
torch.set_num_threads(1)
# A shell ignores interrupts for what it starts in the background, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Tests on fake CUDA run alone, with `-m fakecuda`: inference mode hides copies between host and device, so that
    it is taken away before anything of the package is imported."""
    if config.option.markexpr == "fakecuda":
        torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Pools of threads that a test starts set the number that they found, which it may have patched."""
    yield
    torch.set_num_threads(1)
