"""Blocks of battles: their sizes, and the threads that play them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from echelon.env.blocks import BLOCK, Blocks, block_size, workers

CPU = torch.device("cpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    workers.cache_clear()
    yield
    workers.cache_clear()
    torch.set_num_threads(before)


def threads_at_work(_: int) -> int:
    """How many threads torch shares a product out to, once it has made one."""
    torch.ones(64, 64) @ torch.ones(64, 64)
    return torch.get_num_threads()


def test_torch_uses_one_thread_in_each_worker(two_threads: None) -> None:
    """Else every block would be shared out once more, and learning would pay for it: threads that outnumber the cores
    no longer wait for each other but sleep."""
    assert list(workers(2).map(threads_at_work, range(8))) == [1] * 8
    assert torch.get_num_threads() == 2


def test_whole_batch_on_a_cpu_runs_on_one_thread(two_threads: None) -> None:
    """Its operations are small: threads would wait for each other for longer than they work."""
    assert Blocks(4, CPU, whole=True).play(threads_at_work) == [1]
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError):
        Blocks(4, CPU, whole=True).play(lambda _: 1 / 0)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("num_envs", "threads", "expected"), [(1024, 2, 128), (128, 2, 64), (128, 1, 128), (6, 2, 3), (7, 2, 7), (1, 2, 1)]
)
def test_block_sizes(num_envs: int, threads: int, expected: int) -> None:
    """Equal, at most `BLOCK`, and the threads equally busy where that can be had."""
    assert block_size(num_envs, threads, BLOCK) == expected <= BLOCK


def test_blocks_cover_all_battles_in_order(two_threads: None) -> None:
    """Whichever thread plays them."""
    blocks = Blocks(1024, CPU)
    for _ in range(2):  # the first time on one thread
        played = blocks.play(lambda span: torch.arange(1024)[span])
        assert torch.cat(played).equal(torch.arange(1024)) and len(played) == 8
