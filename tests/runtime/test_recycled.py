"""Reuse of arrays that are no longer referenced."""

import torch

from echelon.env.loops.play import KEPT, ArrayPool


def test_array_is_reused_when_it_is_no_longer_referenced():
    memory = ArrayPool()
    first = torch.from_numpy(memory.empty("x", (4, 3), "float32"))
    place, row = first.data_ptr(), first[1:2]
    del first
    other = torch.from_numpy(memory.empty("x", (4, 3), "float32"))
    assert other.data_ptr() != place
    del row
    assert memory.empty("x", (4, 3), "float32").ctypes.data == place
    assert memory.empty("x", (4, 3), "float64").ctypes.data != place
    assert memory.empty("y", (4, 3), "float32").ctypes.data != place


def test_referenced_array_is_not_reused():
    memory = ArrayPool()
    held = [memory.empty("x", (5,), "int64") for _ in range(3 * KEPT)]
    assert len({array.ctypes.data for array in held}) == 3 * KEPT
