"""Divide battles among the threads of a CPU, in blocks that fit its caches."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

BLOCK = 128
"""Maximum battles per block, so that the dense operations of a substep stay in the caches
(`benchmarks/README.md`). Loops process one battle at a time, so their blocks have any size."""
Played = TypeVar("Played")


@contextlib.contextmanager
def no_grad_outside_inference_mode() -> Iterator[None]:
    """Create ordinary tensors without gradients, even if the caller is in inference mode.

    No-grad mode and inference mode are set per thread, and a compiled graph is specialized to the mode of its first
    call. Tensors created in inference mode cannot be modified outside inference mode, but a step modifies terrain in
    place.
    """
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextlib.contextmanager
def one_thread(device: torch.device, number: int = 1) -> Iterator[None]:
    """Set torch's thread count to `number`, if the `device` is a CPU.

    Torch would split each small operation of a decision among its threads, which then busy-wait for each other longer
    than they work: on two shared cores, a decision of 192 battles took 3.6 s with two threads and 0.3 s with one.
    """
    if device.type != "cpu":
        yield
        return
    previous = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


class Blocks:
    """Blocks of consecutive battles, of equal size. On a CPU, blocks run in parallel, each in its own thread; on a GPU,
    all battles form one block.

    The division into blocks does not change the result of any battle.

    Args:
        num_envs: number of battles, B.
        device: device of the battles.
        most: maximum battles per block, by default `BLOCK`.
        whole: play all battles as one block on any device; on a CPU in one thread.
    """

    def __init__(self, num_envs: int, device: torch.device, most: int | None = None, whole: bool = False) -> None:
        self.context = functools.partial(one_thread, device) if whole else contextlib.nullcontext
        self.num_envs, self.most = num_envs, most or BLOCK
        self.is_whole = whole or device.type != "cpu"
        self._has_compiled = False
        self.share(torch.get_num_threads())

    def share(self, threads: int) -> None:
        """Divide the battles into blocks for this number of threads, unless all battles form one block."""
        self.threads = 1 if self.is_whole else threads
        size = self.num_envs if self.is_whole else block_size(self.num_envs, threads, self.most)
        self.spans = [slice(start, start + size) for start in range(0, self.num_envs, size)]

    def play(self, run: Callable[[slice], Played], spans: list[slice] | None = None) -> list[Played]:
        """Call `run` on every block, or on the given `spans`, outside inference mode; return the results in order."""
        spans = spans or self.spans

        def alone(span: slice) -> Played:
            with no_grad_outside_inference_mode(), self.context():
                return run(span)

        if self.threads == 1 or len(spans) == 1 or not self._has_compiled:
            # Run the first call sequentially; otherwise every thread would compile the same function.
            self._has_compiled = True
            return [alone(span) for span in spans]
        return list(workers(self.threads).map(alone, spans))


def block_size(num_envs: int, threads: int, most: int) -> int:
    """Return a block size of at most `most` that divides the battles, and keeps threads equally busy if possible."""
    sizes = [size for size in range(1, min(num_envs, most) + 1) if num_envs % size == 0]
    fair = [size for size in sizes if num_envs // size % threads == 0]
    return max(fair or sizes)


@functools.cache
def workers(count: int) -> ThreadPoolExecutor:
    """Return a thread pool for blocks. In each thread of the pool, torch uses a single thread."""
    num_threads, ready = torch.get_num_threads(), threading.Barrier(count)
    pool = ThreadPoolExecutor(count, "echelon-block")

    def settle_in() -> None:
        # A thread's first torch call gives it the global thread count, so make such a call before setting the count.
        torch.get_num_threads()
        torch.set_num_threads(1)
        ready.wait()

    for started in [pool.submit(settle_in) for _ in range(count)]:
        started.result()
    torch.set_num_threads(num_threads)
    return pool


# A forked child process inherits the thread pool without its threads, so it must create a new pool.
os.register_at_fork(after_in_child=workers.cache_clear)
