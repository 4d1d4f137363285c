"""Counts functions whose bytes are known, as `benchmarks/launches.py` counts those of a decision."""

import sys
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from generated import generate, pretend_a_gpu

from fakecuda.fakes import without_a_driver

ROWS, WIDTH = 1000, 64
MASK, LEAF = ROWS, ROWS * WIDTH * 4
"""Bytes of `[ROWS]` bool and of `[ROWS, WIDTH]` float32."""


def written(which, one, other, kept):
    """What is written in place is not read."""
    kept.copy_(torch.where(which[:, None], one, other))


def merged(which, one, other, kept):
    """Here it is."""
    kept.copy_(torch.where(which[:, None], one, kept))


def read_before(which, one, other, kept):
    """Another kernel, a reduction of it, has to run first."""
    total = kept.sum()
    kept.copy_(other)
    return total


def read_after(which, one, other, kept):
    """It is read again by the next kernel."""
    kept.copy_(one)
    return kept.sum(0)


def row_written(which, one, other, kept):
    """A row whose number is in a tensor."""
    kept.index_copy_(0, which[:1].long(), one[:1] + other[:1])


EXPECTED = {
    written: MASK + 3 * LEAF,
    merged: MASK + 3 * LEAF,
    read_before: 3 * LEAF,
    read_after: 3 * LEAF,
    row_written: 3 * WIDTH * 4,
}


def main() -> None:
    """What is counted is what is moved; sums and numbers of rows are small."""
    pretend_a_gpu()
    with without_a_driver(), FakeTensorMode():
        which = torch.zeros(ROWS, dtype=torch.bool, device="cuda:0")
        leaves = [torch.zeros(ROWS, WIDTH, device="cuda:0") for _ in range(3)]
        for function, expected in EXPECTED.items():
            moved = sum(kernel.moved for kernel in generate(function, (which, *leaves)).kernels)
            slack = 0.15 * expected if function in (read_before, read_after) else 64
            print(function.__name__, expected, moved, "right" if expected <= moved <= expected + slack else "wrong")


if __name__ == "__main__":
    main()
