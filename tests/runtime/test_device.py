"""Choice of the device of a process."""

import re
import shutil

import pytest
import torch

from echelon.runtime import device as device_module
from echelon.runtime import fallback
from echelon.runtime.device import resolve_device, unusable_gpu, use_device
from echelon.runtime.distributed import ALONE


@pytest.mark.requirement("R13")
@pytest.mark.parametrize("place", [use_device, ALONE.place])
def test_a_gpu_becomes_the_current_one(place, monkeypatch):
    """Otherwise code without a device index, such as graphs of torch.compile, would run on another GPU."""
    current = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    assert place(torch.device("cuda:1")) == torch.device("cuda:1") and current == [torch.device("cuda:1")]
    assert place(torch.device("cuda")) == torch.device("cuda:2") == current[-1]
    assert place(torch.device("cpu")) == torch.device("cpu") and len(current) == 2


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Simulate a machine on which torch cannot use a GPU."""

    def make(cuda: str | None, driver: bool, error: str = "", hidden: str | None = None) -> None:
        monkeypatch.setattr(fallback, "REASONS", [])
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(device_module, "DRIVER", (tmp_path,) if driver else ())
        monkeypatch.setattr(shutil, "which", lambda name: None)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if hidden is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)

        def init() -> None:
            if error:
                raise RuntimeError(error)

        monkeypatch.setattr(torch.cuda, "init", init)

    return make


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"cuda": None, "driver": True}, "a driver exists, but torch .* is built without CUDA; install the build"),
        (
            {"cuda": "13.0", "driver": False, "error": "Found no NVIDIA driver on your system. Please"},
            "Found no NVIDIA",
        ),
        ({"cuda": "13.0", "driver": True, "error": "The NVIDIA driver on your system is too old"}, "The NVIDIA driver"),
        ({"cuda": "13.0", "driver": True}, "torch finds no GPU"),
    ],
)
def test_unusable_gpu_is_logged_once_with_a_hint(machine, caplog, how, why):
    machine(**how)
    assert [resolve_device("auto"), resolve_device("auto"), resolve_device("cpu")] == [torch.device("cpu")] * 3
    (record,) = caplog.records
    assert record.getMessage().startswith("fallback: the CPU in place of a GPU: ")
    assert record.getMessage().endswith(", or choose the device cpu")
    assert re.search(why, record.getMessage())


@pytest.mark.parametrize(
    "how",
    [
        {"cuda": None, "driver": False},
        {"cuda": "13.0", "driver": True, "error": "No CUDA GPUs are available", "hidden": ""},
        {"cuda": "13.0", "driver": True, "error": "No CUDA GPUs are available", "hidden": "-1"},
    ],
)
def test_no_message_if_no_gpu_is_expected(machine, caplog, how):
    machine(**how)
    assert unusable_gpu() == "" and resolve_device("auto") == torch.device("cpu") and not caplog.records
