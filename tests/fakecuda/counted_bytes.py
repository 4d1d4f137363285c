"""Count functions with known bytes by the method of `benchmarks/launches.py`."""

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
    """An in-place write does not read its target."""
    kept.copy_(torch.where(which[:, None], one, other))


def merged(which, one, other, kept):
    """This in-place write reads its target."""
    kept.copy_(torch.where(which[:, None], one, kept))


def read_before(which, one, other, kept):
    """A reduction must run as an earlier kernel."""
    total = kept.sum()
    kept.copy_(other)
    return total


def read_after(which, one, other, kept):
    """The next kernel reads the result again."""
    kept.copy_(one)
    return kept.sum(0)


def row_written(which, one, other, kept):
    """Write a row whose index is in a tensor."""
    kept.index_copy_(0, which[:1].long(), one[:1] + other[:1])


EXPECTED = {
    written: MASK + 3 * LEAF,
    merged: MASK + 3 * LEAF,
    read_before: 3 * LEAF,
    read_after: 3 * LEAF,
    row_written: 3 * WIDTH * 4,
}


def main() -> None:
    """Check that counted bytes equal moved bytes; sums and row indices are small."""
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
