"""What all threads of a process share: torch's generators and modes of TorchRL, set by one thread at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from echelon.runtime.errors import ConfigError

PATIENCE_S = 0.05
"""How long a thread waits for its turn before it asks whether the one that has it trains."""


class Turns:
    """Lets one thread at a time work; a thread may enter again what it has entered."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._name, self._trainings = "", 0

    @contextmanager
    def turn(self, trains: bool = False) -> Iterator[None]:
        """Context manager of a thread's turn, which waits for those of others, unless they train."""
        while not self._lock.acquire(timeout=PATIENCE_S):
            if self._trainings > 0:
                raise ConfigError(
                    f"another thread of this process trains, {self._name!r}: train and play in one thread, or each in "
                    "a process of its own (they share torch's generators and modes)"
                )
        self._name = threading.current_thread().name
        self._trainings += trains
        try:
            yield
        finally:
            self._trainings -= trains
            self._lock.release()


TURNS = Turns()


@contextmanager
def kept_generators(device: torch.device, trains: bool = False) -> Iterator[None]:
    """Context manager in which this thread alone may seed torch's generators; behind it they are what they were.

    Args:
        trains: whether other threads are refused, in place of waiting.
    """
    with TURNS.turn(trains), torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


@contextmanager
def full_products(device: torch.device) -> Iterator[None]:
    """Context manager in which a CPU multiplies matrices of float32 as such, whatever `set_float32_matmul_precision`
    the caller has; a GPU follows the caller."""
    previous = torch.get_float32_matmul_precision()
    if device.type == "cpu":
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)
