"""What all threads of a process share: torch's generators and modes of TorchRL, set by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from echelon.runtime.errors import ConfigError


class Turns:
    """Lets one thread at a time work; a thread may enter again what it has entered."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._depth = self._trainings = 0

    @contextmanager
    def turn(self, trains: bool = False) -> Iterator[None]:
        """Context manager of a thread's turn, which waits for those of others, unless they train."""
        thread = threading.current_thread()
        with self._changed:
            while self._depth > 0 and self._thread is not thread:
                if self._trainings > 0:
                    name = getattr(self._thread, "name", "")
                    raise ConfigError(
                        f"another thread of this process trains, {name!r}: train and play in one thread, or each in a "
                        "process of its own (they share torch's generators and modes)"
                    )
                self._changed.wait()
            self._thread = thread
            self._depth += 1
            self._trainings += trains
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                self._trainings -= trains
                self._changed.notify_all()


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
    before = torch.get_float32_matmul_precision()
    if device.type == "cpu":
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
