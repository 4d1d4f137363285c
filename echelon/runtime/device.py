"""Devices of the machine, their memory, and the requirements of torch.compile."""

import importlib.util
import os
import platform
import resource
import shutil
import sysconfig
from pathlib import Path

import torch

from echelon.runtime.errors import require
from echelon.runtime.fallback import cause_of, fall_back

DRIVER = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"))
"""Files that an NVIDIA driver creates. Under WSL only the program nvidia-smi exists."""
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit of a container, for cgroups 2 and 1."""


def resolve_device(name: torch.device | str | int) -> torch.device:
    """Return the torch device of a name.

    If `auto` selects the CPU although a GPU was expected, one line logs the reason; see `unusable_gpu`.

    Args:
        name: one of `auto` (a GPU if there is one, else the CPU), `cpu`, `cuda`, `cuda:N`, a torch device, or a GPU
            index.

    Raises:
        ConfigError: if the name is invalid, or this machine has no such device.
    """
    if name == "auto":
        reason = unusable_gpu()
        if reason:
            fall_back(f"the CPU in place of a GPU: {reason}")
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = f"cuda:{name}" if type(name) is int else str(name)
    kind, colon, index = text.partition(":")
    is_index = index.isascii() and index.isdecimal() and len(index) < 6
    is_known = kind == "cuda" or (kind == "cpu" and index in ("", "0"))
    is_name = isinstance(name, torch.device | str) or type(name) is int
    require(is_name and is_known and (is_index or not colon), "device", "auto, cpu, cuda or cuda:N", name)
    gpus = torch.cuda.device_count()
    if kind == "cuda":
        require(int(index or 0) < gpus, "device", f"one of this machine's {gpus} CUDA GPUs", text)
    return torch.device(text)


def has_driver() -> bool:
    """Return True if this machine has an NVIDIA driver."""
    return any(path.exists() for path in DRIVER) or shutil.which("nvidia-smi") is not None


def unusable_gpu() -> str:
    """Return why torch cannot use a GPU, and what to do.

    Returns an empty string if torch can use a GPU, or if none is expected: torch is built without CUDA and there is no
    driver, or `CUDA_VISIBLE_DEVICES` hides all GPUs.
    """
    if torch.cuda.is_available() or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return ""
    if torch.version.cuda is None:
        todo = "install the build of torch for CUDA, or choose the device cpu"
        return f"a driver exists, but torch {torch.__version__} is built without CUDA; {todo}" if has_driver() else ""
    try:
        torch.cuda.init()
        reason = "torch finds no GPU"
    except (RuntimeError, AssertionError) as problem:
        reason = cause_of(problem).partition(". ")[0]
    return f"{reason} (torch {torch.__version__}); check that nvidia-smi lists the GPU, or choose the device cpu"


def processor_name(device: torch.device) -> str:
    """Return the name of a GPU, or the processor architecture of this machine."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory of a GPU, or the bytes that this process may use on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits = [] if soft == resource.RLIM_INFINITY else [soft]
    for path in CGROUP_LIMITS:
        text = path.read_text().strip() if path.is_file() else ""
        limits += [int(text)] if text.isdecimal() else []
    return min(physical, *limits) if limits else physical


def free_memory(device: torch.device) -> int:
    """Return the bytes of free memory of a GPU, or `total_memory` on a CPU."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else total_memory(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error reports that a device is out of memory. On a CPU, only the message of torch's error shows
    this."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def use_device(device: torch.device) -> torch.device:
    """Make a GPU the current device of this process, which kernels and graphs use by default.

    Returns:
        The device, with its index if it is a GPU.
    """
    if device.type != "cuda":
        return device
    current = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    torch.cuda.set_device(current)
    return current


def can_compile(device: torch.device) -> bool:
    """Return True if the requirements of torch.compile for a device are installed; if not, log what is missing."""
    missing = compiling_lacks(device)
    if missing:
        fall_back(f"{device.type} runs without torch.compile, which needs {' and '.join(missing)}")
    return not missing


def compiling_lacks(device: torch.device) -> list[str]:
    """Return the missing requirements of torch.compile: a compiler, Python's headers, and Triton for a GPU."""
    kind, names = ("C++", ("CXX", "g++", "clang++")) if device.type == "cpu" else ("C", ("CC", "gcc", "clang"))
    compilers = (os.environ.get(names[0], ""), *names[1:])
    requirements = {
        f"a {kind} compiler": any(name and shutil.which(name) for name in compilers),
        "Python's headers": (Path(sysconfig.get_paths()["include"]) / "Python.h").exists(),
        "Triton": device.type == "cpu" or importlib.util.find_spec("triton") is not None,
    }
    return [name for name, exists in requirements.items() if not exists]
