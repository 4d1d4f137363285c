"""Battles shared out to the threads of a CPU, in blocks that fit its caches."""

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
"""Battles a block at most: what dense operations of a substep touch of so many stays in the caches
(`benchmarks/README.md`). Loops take a battle at a time, and blocks of any size."""
Played = TypeVar("Played")


@contextlib.contextmanager
def no_grad_outside_inference_mode() -> Iterator[None]:
    """What is made inside are ordinary tensors without gradients, in whatever mode the caller is.

    The modes belong to a thread, and a compiled graph is made for the one it first meets. What is made in
    inference mode cannot be written to outside it, as steps write to the terrain.
    """
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextlib.contextmanager
def one_thread(device: torch.device, number: int = 1) -> Iterator[None]:
    """torch works on one thread inside, or on another `number`, if the `device` is a CPU.

    It would split each small operation of a decision among its threads, which wait for each other, busily, for longer
    than they work: on two shared cores a decision of 192 battles took 3.6 s with two threads, and 0.3 s with one.
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
    """Equal runs of battles. On a CPU they are played side by side, each on one thread; on a GPU there is one.

    Which battles share a block changes nothing about them.

    Args:
        num_envs: battles, B.
        device: where they live.
        most: battles a block at most, by default `BLOCK`.
        whole: play all battles as one block, whatever the device; on a CPU on one thread.
    """

    def __init__(self, num_envs: int, device: torch.device, most: int | None = None, whole: bool = False) -> None:
        self.context = functools.partial(one_thread, device) if whole else contextlib.nullcontext
        self.num_envs, self.most = num_envs, most or BLOCK
        self.is_whole = whole or device.type != "cpu"
        self._has_compiled = False
        self.share(torch.get_num_threads())

    def share(self, threads: int) -> None:
        """Share the battles out to so many threads, if they are not played as one block."""
        self.threads = 1 if self.is_whole else threads
        size = self.num_envs if self.is_whole else block_size(self.num_envs, threads, self.most)
        self.spans = [slice(start, start + size) for start in range(0, self.num_envs, size)]

    def play(self, run: Callable[[slice], Played], spans: list[slice] | None = None) -> list[Played]:
        """`run` on every block, or on other `spans`, in their order. What it makes are ordinary tensors in any mode."""
        spans = spans or self.spans

        def alone(span: slice) -> Played:
            with no_grad_outside_inference_mode(), self.context():
                return run(span)

        if self.threads == 1 or len(spans) == 1 or not self._has_compiled:
            # The first time by itself: else every thread would compile.
            self._has_compiled = True
            return [alone(span) for span in spans]
        return list(workers(self.threads).map(alone, spans))


def block_size(num_envs: int, threads: int, most: int) -> int:
    """Battles a block: at most `most`, the same in each, and the threads kept equally busy where that can be had."""
    sizes = [size for size in range(1, min(num_envs, most) + 1) if num_envs % size == 0]
    fair = [size for size in sizes if num_envs // size % threads == 0]
    return max(fair or sizes)


@functools.cache
def workers(count: int) -> ThreadPoolExecutor:
    """Threads that share battles, each working alone: torch does not split their tensors further."""
    num_threads, ready = torch.get_num_threads(), threading.Barrier(count)
    pool = ThreadPoolExecutor(count, "echelon-block")

    def settle_in() -> None:
        # A thread takes over torch's number with its first work, so it is asked for before another is set.
        torch.get_num_threads()
        torch.set_num_threads(1)
        ready.wait()

    for started in [pool.submit(settle_in) for _ in range(count)]:
        started.result()
    torch.set_num_threads(num_threads)
    return pool


# A forked process keeps the pool but none of its threads.
os.register_at_fork(after_in_child=workers.cache_clear)
