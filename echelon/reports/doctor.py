"""Diagnostics of a machine: each feature is tried, and a failure is reported with its reason."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch._inductor.runtime.cache_dir_utils import cache_dir

from echelon.env.env import EchelonEnv
from echelon.env.footprint import amount
from echelon.env.form import form_of
from echelon.env.measure import measure
from echelon.env.rehearsal import BATTLES, rehearse
from echelon.learn.ppo.advantage import check_torchrl
from echelon.rules.config import EnvConfig
from echelon.runtime import cuda_graphs, fallback
from echelon.runtime.compile import fused
from echelon.runtime.cuda_graphs import WARM_UPS, GraphedFunction
from echelon.runtime.device import compiling_lacks, free_memory, total_memory
from echelon.runtime.errors import one_line
from echelon.runtime.jit import HAS_LOOPS
from echelon.runtime.loop_cache import cache_folder, is_cached
from echelon.runtime.version import VERSION, version_of

PACKAGES = ("torchrl", "tensordict", "numpy", "numba", "triton")
WIDTH = 15


def print_answers(device: torch.device, rehearses: bool, measures: bool) -> None:
    """Print one line per check as soon as it is done, and then the functions that fell back to a simpler form."""
    for name, ask in questions(device, rehearses, measures):
        print(one_line(f"{name:<{WIDTH}}{answer(ask)}"), flush=True)
    for line in fallback.REASONS:
        print(one_line(f"{'fell back':<{WIDTH}}{line}"))


def answer(ask: Callable[[], str]) -> str:
    """Run one check and return its result or the reason of its failure; a failure does not stop later checks."""
    try:
        return ask()
    except Exception as problem:
        return f"fails: {fallback.cause_of(problem)}"


def questions(
    device: torch.device, has_rehearsal: bool, has_measurement: bool = False
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name and the function of each check of the machine."""
    yield "echelon", lambda: f"{VERSION}, Python {platform.python_version()} on {platform.platform()}"
    yield "torch", lambda: f"{torch.__version__}, CUDA {torch.version.cuda or 'not in this build'}"
    yield "packages", lambda: ", ".join(f"{name} {version_of(name) or 'not installed'}" for name in PACKAGES)
    yield "training", check_torchrl
    yield "device", lambda: device_name(device)
    if device.type == "cuda":
        yield "driver", driver
    yield "memory", lambda: f"{amount(free_memory(device))} free of {amount(total_memory(device))}"
    yield "processors", lambda: f"{len(os.sched_getaffinity(0))}, torch uses {torch.get_num_threads()} threads"
    if has_measurement:
        yield "measured", lambda: measure(device).line
    yield "battles run as", lambda: form_of(device)
    yield "numba", loops
    yield "compiler", compiler
    if device.type == "cuda" or has_rehearsal:
        yield "torch.compile", lambda: compiles(device)
    if device.type == "cuda":
        yield "CUDA graphs", lambda: captures(device)
    yield "caches", lambda: ", ".join(map(writable, (cache_folder(), Path(cache_dir()))))
    yield "variables", variables
    if has_rehearsal:
        yield "rehearsal", lambda: rehearse(EchelonEnv(EnvConfig.small(), BATTLES, device, 0), True).line


def device_name(device: torch.device) -> str:
    """Return the name of a device; for a GPU with its architecture."""
    if device.type == "cpu":
        return f"cpu, {platform.machine()}"
    return f"{device}, {torch.cuda.get_device_name(device)}, sm_{''.join(map(str, torch.cuda.get_device_capability()))}"


def driver() -> str:
    """Return the version of the GPU driver, as nvidia-smi reports it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()[0]


def loops() -> str:
    """Return whether the CPU's numba loops are available, and whether they are already compiled."""
    if not HAS_LOOPS:
        return "not installed: battles on a CPU run in eager mode, many times slower; pip install numba"
    return "loops are compiled" if is_cached("decision_loop") else "loops will be compiled once, in about a minute"


def compiler() -> str:
    """Return the paths of the C++ compiler and of Python's headers, which torch.compile needs on any device."""
    compiler_path = next(
        (path for path in map(shutil.which, (os.environ.get("CXX", ""), "g++", "clang++")) if path), None
    )
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    missing = [*(["no C++ compiler"] if compiler_path is None else []), *([] if header.exists() else [f"no {header}"])]
    return "; ".join(missing) + ": torch.compile is off" if missing else f"{compiler_path}, {header}"


def compiles(device: torch.device) -> str:
    """Compile a small function with torch.compile, and compare its result with eager mode."""
    if compiling_lacks(device):
        return "off: a compiler or Python's headers are missing"

    def function(values: Tensor) -> Tensor:
        return (values * 2 + 1).sum(-1)

    start_s, values = time.perf_counter(), torch.arange(12.0, device=device).view(3, 4)
    is_equal = torch.allclose(fused(function, device)(values), function(values))
    return f"works ({time.perf_counter() - start_s:.1f} s)" if is_equal else "fails: the result differs from eager mode"


def captures(device: torch.device) -> str:
    """Capture a small function as a CUDA graph, and check that replays of the graph give the result of calls."""
    if cuda_graphs.are_off():
        return f"off: {cuda_graphs.VARIABLE}=off"
    total = torch.zeros((), device=device)

    def add() -> None:
        total.add_(1)

    graphed = GraphedFunction(add, device, "a small function")
    calls = WARM_UPS + 3
    for _ in range(calls):
        graphed("doctor")
    if int(total) != calls:
        return "fails: a replay differs from a call"
    return "work" if graphed.is_graphed else "fail: see below"


def writable(folder: Path | None) -> str:
    """Return the path of a cache folder, and whether it is writable or can be created."""
    if folder is None:
        return "none for loops, so they are compiled at every start"
    first = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{folder} ({'writable' if os.access(first, os.W_OK) else 'not writable'})"


def variables() -> str:
    """Return the environment variables that affect how Echelon runs."""
    variables_set = {name: value for name, value in os.environ.items() if name.startswith(("ECHELON_", "CUDA_VISIBLE"))}
    return ", ".join(f"{name}={value}" for name, value in sorted(variables_set.items())) or "none"
