"""Reuse of sets of arrays that are no longer referenced."""

import numpy as np
import torch

from echelon.env.loops.play import KEPT, ArrayPool


def pair():
    return {"x": np.empty((4, 3), np.float32), "y": [np.empty(4, np.int64)]}


def test_set_is_reused_when_none_of_its_arrays_is_referenced():
    memory = ArrayPool()
    first = memory.take("state", 4, pair)
    whole, row = torch.from_numpy(first["x"]), torch.from_numpy(first["y"][0])[1:2]
    other = memory.take("state", 4, pair)
    assert other is not first
    del whole
    assert memory.take("state", 4, pair) is other
    del row
    held = torch.from_numpy(other["x"])
    assert memory.take("state", 4, pair) is first
    assert memory.take("state", 3, pair) is not first and memory.take("shown", 4, pair) is not first
    del held


def test_referenced_array_is_not_reused():
    memory = ArrayPool()
    held = [torch.from_numpy(memory.take("state", 5, pair)["x"]) for _ in range(3 * KEPT)]
    assert len({tensor.data_ptr() for tensor in held}) == 3 * KEPT
