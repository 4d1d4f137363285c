"""Let threads take turns in using process-wide state: torch's random generators and the modes of TorchRL."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from echelon.runtime.errors import ConfigError

PATIENCE_S = 0.05
"""Seconds that a thread waits for its turn before it checks whether the active thread trains."""


class Turns:
    """A re-entrant lock that lets one thread work at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._name, self._trainings = "", 0

    @contextmanager
    def turn(self, trains: bool = False) -> Iterator[None]:
        """Context manager for one turn of a thread. The thread waits for other threads; if one of them trains,
        `ConfigError` is raised."""
        while not self._lock.acquire(timeout=PATIENCE_S):
            if self._trainings > 0:
                raise ConfigError(
                    f"another thread of this process trains, {self._name!r}: train and play in one thread, or each in "
                    "its own process (they share torch's generators and modes)"
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
    """Context manager in which only this thread may seed torch's generators. The context manager restores the state of
    the generators at the end.

    Args:
        device: device whose generator is restored, in addition to the CPU.
        trains: whether other threads get an error instead of waiting.
    """
    with TURNS.turn(trains), torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


@contextmanager
def full_products(device: torch.device) -> Iterator[None]:
    """Context manager with full float32 matrix products on a CPU, regardless of `set_float32_matmul_precision`.

    A GPU keeps the caller's setting.
    """
    previous = torch.get_float32_matmul_precision()
    if device.type == "cpu":
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)
