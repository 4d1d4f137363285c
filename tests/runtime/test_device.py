"""Which device a process uses."""

import pytest
import torch

from echelon.runtime.device import use_device
from echelon.runtime.distributed import ALONE


@pytest.mark.parametrize("place", [use_device, ALONE.place])
def test_a_gpu_becomes_the_current_one(place, monkeypatch):
    """What names no index, such as a graph of torch.compile, would run on another GPU than its tensors."""
    current = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert place(torch.device("cuda:1")) == torch.device("cuda:1") and current == [torch.device("cuda:1")]
    assert place(torch.device("cuda")) == torch.device("cuda:2") == current[-1]
    assert place(torch.device("cpu")) == torch.device("cpu") and len(current) == 2
