"""Parts of a minibatch on the other cores of a CPU: processes that are forked for one update and share its weights.

Not threads: between two operations each waits for Python's lock, and the scheduler tends to put threads that wake each
other on one core. A forked process sees the rollout as it is, without a copy, and ends with the update.
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
"""Whether a process may be forked: on macOS libraries forbid it, Windows cannot."""
PATIENCE_S = 120.0
"""Seconds that a process may take longer with its parts than this one."""
ALIGNMENT = 16
"""Numbers between the starts of two tensors in shared memory divide by it: products of matrices round by alignment."""


class Part(NamedTuple):
    """What was computed of a part of a minibatch."""

    report: Tensor
    """`[entries]` what the loss reports."""
    gradients: Sequence[Tensor | None]
    """By each of the weights; None for those that the loss does not reach."""


Compute = Callable[[Tensor, int, int], Part]
"""Computes a part of the sequences `index [S]`: its number, and how many there are."""


def shared_tensor(numbers: int, dtype: torch.dtype) -> Tensor:
    """`[numbers]` zeros that this process and those it forks read and write."""
    size = max(numbers, 1) * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype)[:numbers]


class SharedMemory:
    """Weights, gradients, reports and the next minibatch, in memory of all processes.

    Args:
        weights: float32; they are moved here, and stay the same parameters.
        sequences: how many a minibatch has at most.
        parts: how many parts it has at most.
    """

    REPORTED = 64
    """Entries of a report at most."""

    def __init__(self, weights: Sequence[nn.Parameter], sequences: int, parts: int) -> None:
        self.weights = weights
        sizes = [-(-weight.numel() // ALIGNMENT) * ALIGNMENT for weight in weights]
        numbers = shared_tensor((parts + 1) * sum(sizes), torch.float32).view(parts + 1, -1).unbind()
        values, *self.gradients = (
            [leaf[: weight.numel()].view_as(weight) for leaf, weight in zip(row.split(sizes), weights, strict=True)]
            for row in numbers
        )
        """`gradients`: of each part, of each weight."""
        for weight, value in zip(weights, values, strict=True):
            weight.data = value.copy_(weight.detach())
        self.is_reached = shared_tensor(parts * len(weights), torch.bool).view(parts, -1)
        """`[parts, weights]` whether there is such a gradient."""
        self.reports = shared_tensor(parts * self.REPORTED, torch.float32).view(parts, -1)
        self.header = shared_tensor(2, torch.int64)
        """Numbers of sequences and of parts of the minibatch."""
        self.index = shared_tensor(sequences, torch.int64)

    def fits(self, sequences: int, parts: int) -> bool:
        """Whether there is room for such minibatches."""
        return len(self.index) >= sequences and len(self.gradients) >= parts

    def write(self, number: int, part: Part) -> None:
        """Store what was computed of part `number`."""
        for place, (slot, gradient) in enumerate(zip(self.gradients[number], part.gradients, strict=True)):
            self.is_reached[number, place] = gradient is not None
            if gradient is not None:
                slot.copy_(gradient)
        self.reports[number, : len(part.report)] = part.report

    def read(self, number: int, entries: int) -> Part:
        """What was stored of part `number`, whose report has so many entries."""
        slots = zip(self.gradients[number], self.is_reached[number].tolist(), strict=True)
        return Part(self.reports[number, :entries], [slot if is_reached else None for slot, is_reached in slots])


class WorkerProcess:
    """A forked process, which computes every `size`-th part from part `rank` on.

    Args:
        memory: what it shares with this process.
        compute: computes a part.
    """

    def __init__(self, memory: SharedMemory, compute: Compute, rank: int, size: int) -> None:
        theirs, self.to_start = os.pipe()
        self.to_end, ours = os.pipe()
        with warnings.catch_warnings():
            # Python warns of locks that other threads hold; only torch and loops run in the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = os.fork()
        if self.process == 0:
            os.close(self.to_start)
            os.close(self.to_end)
            serve(memory, compute, rank, size, theirs, ours)
        os.close(theirs)
        os.close(ours)

    def start(self) -> bool:
        """Let it compute its parts of the minibatch in shared memory; returns whether it is there."""
        try:
            return os.write(self.to_start, b".") == 1
        except BrokenPipeError:
            return False

    def is_done(self) -> bool:
        """Wait for its parts; False if the process ended, or is stuck."""
        ready, _, _ = select.select([self.to_end], [], [], PATIENCE_S)
        return bool(ready) and os.read(self.to_end, 1) != b""

    def end(self) -> str:
        """End the process; returns how it ended."""
        os.close(self.to_start)
        os.close(self.to_end)
        os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"


def serve(memory: SharedMemory, compute: Compute, rank: int, size: int, to_start: int, to_end: int) -> NoReturn:
    """Compute parts until the process that forked this one ends the update, or ends itself."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # What was there before belongs to the other process: nothing of it is to be finalised here.
        gc.freeze()
        while os.read(to_start, 1):
            sequences, parts = memory.header.tolist()
            for number in range(rank, parts, size):
                memory.write(number, compute(memory.index[:sequences].clone(), number, parts))
            os.write(to_end, b".")
    finally:
        # Neither handlers at exit nor callers' blocks may run; where it failed, the other process meets the error too.
        os._exit(1)


class ForkedParts:
    """Context manager in which parts of minibatches are computed by several processes, this one among them.

    A part whose process has ended is computed here, with the same result.

    Args:
        compute: computes a part; it draws no random numbers and changes nothing but what it returns.
        memory: what the processes share; None for one process.
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
            fall_back(f"learning on one core: no process can be forked ({cause_of(error)})")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.end()
        self.workers.clear()

    def compute(self, index: Tensor, parts: int) -> list[Part]:
        """All parts of the sequences `index [S]`, in their order."""
        memory, computed = self.memory, {}
        if memory is None or not self.workers:
            return [self.compute_part(index, number, parts) for number in range(parts)]
        memory.index[: len(index)] = index
        memory.header[0], memory.header[1] = len(index), parts
        asked = {rank for rank in list(self.workers) if self._is_well(rank, self.workers[rank].start())}
        for number in range(parts):
            if number % self.size not in asked:
                computed[number] = self.compute_part(index, number, parts)
        entries = len(computed[0].report)
        for rank in asked:
            is_done = self._is_well(rank, self.workers[rank].is_done())
            for number in range(rank, parts, self.size):
                computed[number] = memory.read(number, entries) if is_done else self.compute_part(index, number, parts)
        return [computed[number] for number in range(parts)]

    def _is_well(self, rank: int, is_well: bool) -> bool:
        """`is_well`; a process that is not is ended."""
        if not is_well:
            ended = self.workers.pop(rank).end()
            fall_back(f"learning on one core: a process that computed parts of minibatches ended with {ended}")
        return is_well
