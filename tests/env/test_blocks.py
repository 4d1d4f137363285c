"""Blocks of battles: their sizes, and the threads that play them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from echelon.env.blocks import BLOCK, Blocks, block_size, workers

CPU = torch.device("cpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Set torch to two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    workers.cache_clear()
    yield
    workers.cache_clear()
    torch.set_num_threads(before)


def threads_at_work(_: int) -> int:
    """Return torch's thread count in a worker, after a matrix product."""
    torch.ones(64, 64) @ torch.ones(64, 64)
    return torch.get_num_threads()


def test_torch_uses_one_thread_in_each_worker(two_threads: None) -> None:
    """Otherwise every block would be split again, and learning would get slower: with more threads than cores, waiting
    threads sleep instead of spinning."""
    assert list(workers(2).map(threads_at_work, range(8))) == [1] * 8
    assert torch.get_num_threads() == 2


def test_whole_batch_on_a_cpu_runs_on_one_thread(two_threads: None) -> None:
    """Its operations are small, so threads would wait for each other longer than they work."""
    assert Blocks(4, CPU, whole=True).play(threads_at_work) == [1]
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError):
        Blocks(4, CPU, whole=True).play(lambda _: 1 / 0)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("num_envs", "threads", "expected"), [(1024, 2, 128), (128, 2, 64), (128, 1, 128), (6, 2, 3), (7, 2, 7), (1, 2, 1)]
)
def test_block_sizes(num_envs: int, threads: int, expected: int) -> None:
    """Blocks are equal, at most `BLOCK`, and keep threads equally busy if possible."""
    assert block_size(num_envs, threads, BLOCK) == expected <= BLOCK


def test_blocks_cover_all_battles_in_order(two_threads: None) -> None:
    """The order does not depend on the threads."""
    blocks = Blocks(1024, CPU)
    for _ in range(2):  # the first call runs on one thread
        played = blocks.play(lambda span: torch.arange(1024)[span])
        assert torch.cat(played).equal(torch.arange(1024)) and len(played) == 8
