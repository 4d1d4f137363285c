"""Compute parts of a minibatch on other CPU cores, in processes that are forked for one update and share the weights.

Threads are slower here: they wait for Python's lock between operations, and the scheduler tends to put threads that
wake each other on one core. A forked process sees the rollout without a copy, and ends with the update.
"""

from __future__ import annotations

import gc
import mmap
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from echelon.runtime.fallback import cause_of, fall_back

CAN_FORK = sys.platform == "linux"
"""Whether processes can be forked: macOS libraries forbid it, and Windows cannot."""
PATIENCE_S = 120.0
"""Timeout for a worker's parts after this process has finished its own, seconds."""
ALIGNMENT = 16
"""Alignment of tensors in shared memory, in elements: the rounding of matrix products depends on it."""


class Part(NamedTuple):
    """Result of one part of a minibatch."""

    report: Tensor
    """`[entries]` report of the loss."""
    gradients: Sequence[Tensor | None]
    """Gradient of each weight; None for weights that the loss does not use."""


Compute = Callable[[Tensor, int, int], Part]
"""Compute one part of the sequences `index [S]`, given the part's number and the number of parts."""


def shared_tensor(numbers: int, dtype: torch.dtype) -> Tensor:
    """Return zeros `[numbers]` in memory that this process shares with its forks."""
    size = max(numbers, 1) * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype)[:numbers]


class SharedMemory:
    """Weights, gradients, reports and the next minibatch in memory shared by all processes.

    Args:
        weights: float32 parameters; their storage moves to shared memory.
        sequences: maximum number of sequences per minibatch.
        parts: maximum number of parts per minibatch.
    """

    REPORTED = 64
    """Maximum number of entries in a report."""

    def __init__(self, weights: Sequence[nn.Parameter], sequences: int, parts: int) -> None:
        self.weights = weights
        sizes = [-(-weight.numel() // ALIGNMENT) * ALIGNMENT for weight in weights]
        numbers = shared_tensor((parts + 1) * sum(sizes), torch.float32).view(parts + 1, -1).unbind()
        values, *self.gradients = (
            [leaf[: weight.numel()].view_as(weight) for leaf, weight in zip(row.split(sizes), weights, strict=True)]
            for row in numbers
        )
        """Gradients by part and weight."""
        for weight, value in zip(weights, values, strict=True):
            weight.data = value.copy_(weight.detach())
        self.is_reached = shared_tensor(parts * len(weights), torch.bool).view(parts, -1)
        """`[parts, weights]` whether the loss uses the weight."""
        self.reports = shared_tensor(parts * self.REPORTED, torch.float32).view(parts, -1)
        self.header = shared_tensor(2, torch.int64)
        """Numbers of sequences and parts of the minibatch."""
        self.index = shared_tensor(sequences, torch.int64)

    def fits(self, sequences: int, parts: int) -> bool:
        """Return whether minibatches of this size fit into the shared memory."""
        return len(self.index) >= sequences and len(self.gradients) >= parts

    def write(self, number: int, part: Part) -> None:
        """Store the result of part `number`."""
        for place, (slot, gradient) in enumerate(zip(self.gradients[number], part.gradients, strict=True)):
            self.is_reached[number, place] = gradient is not None
            if gradient is not None:
                slot.copy_(gradient)
        self.reports[number, : len(part.report)] = part.report

    def read(self, number: int, entries: int) -> Part:
        """Return the result of part `number`, whose report has `entries` entries."""
        slots = zip(self.gradients[number], self.is_reached[number].tolist(), strict=True)
        return Part(self.reports[number, :entries], [slot if is_reached else None for slot, is_reached in slots])


class WorkerProcess:
    """A forked process that computes every `size`-th part, starting with part `rank`.

    Args:
        memory: memory shared with this process.
        compute: computes one part.
    """

    def __init__(self, memory: SharedMemory, compute: Compute, rank: int, size: int) -> None:
        theirs, self.to_start = os.pipe()
        self.to_end, ours = os.pipe()
        with warnings.catch_warnings():
            # Python warns about a fork while other threads may hold locks; this child runs only torch and numba code.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if self.process == 0:
            os.close(self.to_start)
            os.close(self.to_end)
            serve(memory, compute, rank, size, theirs, ours)
        os.close(theirs)
        os.close(ours)

    def start(self) -> bool:
        """Start the worker on its parts of the minibatch in shared memory; return whether the worker is alive."""
        try:
            return os.write(self.to_start, b".") == 1
        except BrokenPipeError:
            return False

    def is_done(self) -> bool:
        """Wait for the worker's parts; return False if the worker ended or timed out."""
        ready, _, _ = select.select([self.to_end], [], [], PATIENCE_S)
        return bool(ready) and os.read(self.to_end, 1) != b""

    def end(self) -> str:
        """Kill the worker; return its exit status as text."""
        os.close(self.to_start)
        os.close(self.to_end)
        os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"


def serve(memory: SharedMemory, compute: Compute, rank: int, size: int, to_start: int, to_end: int) -> NoReturn:
    """Compute parts until the parent process closes the pipe or ends."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Objects inherited from the parent process must not be finalised in the child, so exclude them from collection.
        gc.freeze()
        while os.read(to_start, 1):
            sequences, parts = memory.header.tolist()
            for number in range(rank, parts, size):
                memory.write(number, compute(memory.index[:sequences].clone(), number, parts))
            os.write(to_end, b".")
    finally:
        # `_exit` skips exit handlers and `finally` blocks. The parent recomputes failed parts and reports errors.
        os._exit(1)


class ForkedParts:
    """Context manager that computes parts of minibatches in several processes, including this one.

    If a worker process ends early, this process computes the missing parts with the same result.

    Args:
        compute: computes one part; it draws no random numbers and has no side effects.
        memory: shared memory; None for one process.
        size: number of processes.
    """

    def __init__(self, compute: Compute, memory: SharedMemory | None, size: int) -> None:
        self.compute_part, self.memory, self.size = compute, memory, size if memory is not None else 1
        self.workers: dict[int, WorkerProcess] = {}

    def __enter__(self) -> ForkedParts:
        try:
            for rank in range(1, self.size):
                assert self.memory is not None
                self.workers[rank] = WorkerProcess(self.memory, self.compute_part, rank, self.size)
        except OSError as error:
            fall_back(f"learning on one core: cannot fork a process ({cause_of(error)})")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.end()
        self.workers.clear()

    def compute(self, index: Tensor, parts: int) -> list[Part]:
        """Return all parts of the sequences `index [S]`, in order."""
        memory, computed = self.memory, {}
        if memory is None or not self.workers:
            return [self.compute_part(index, number, parts) for number in range(parts)]
        memory.index[: len(index)] = index
        memory.header[0], memory.header[1] = len(index), parts
        asked = {rank for rank in list(self.workers) if self._keep_or_end(rank, self.workers[rank].start())}
        for number in range(parts):
            if number % self.size not in asked:
                computed[number] = self.compute_part(index, number, parts)
        entries = len(computed[0].report)
        for rank in asked:
            is_done = self._keep_or_end(rank, self.workers[rank].is_done())
            for number in range(rank, parts, self.size):
                computed[number] = memory.read(number, entries) if is_done else self.compute_part(index, number, parts)
        return [computed[number] for number in range(parts)]

    def _keep_or_end(self, rank: int, is_alive: bool) -> bool:
        """Return `is_alive`; if it is False, end the worker before."""
        if not is_alive:
            ended = self.workers.pop(rank).end()
            fall_back(f"learning on one core: a worker process for minibatch parts ended with {ended}")
        return is_alive
