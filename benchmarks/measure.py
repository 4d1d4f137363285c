"""Shared by all benchmarks: medians of repeats, and JSON lines with sizes, device and versions."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import tensordict
import torch
import torchrl

GIB = 2**30
# Do not measure the dense form that battles use while another process compiles the loops.
os.environ["ECHELON_COMPILE"] = "wait"


Clock = Callable[[], float]


def once(run: Callable[[], object], device: torch.device, clock: Clock = time.perf_counter) -> float:
    """Return the time of `run` by a clock (wall time by default), with the device synchronised after it."""
    start_s = clock()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start_s


def seconds(run: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3) -> float:
    """Return the median wall time of `run` after warm-up, with the device synchronised around each call."""
    for _ in range(warmup):
        once(run, device)
    return statistics.median(once(run, device) for _ in range(repeats))


def in_turn(
    one: Callable[[], object],
    other: Callable[[], object],
    device: torch.device,
    rounds: int,
    clock: Clock = time.perf_counter,
) -> tuple[float, float, float]:
    """Run two functions in turn, so that noise of the machine affects both equally.

    Returns:
        The median time of each, and the median ratio of the second to the first.
    """
    pairs = [(once(one, device, clock), once(other, device, clock)) for _ in range(rounds)]
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second), statistics.median(b / a for a, b in pairs)


def peak_memory_gib(device: torch.device) -> float | None:
    """Return the peak memory of tensors of this process on a GPU, GiB; None on a CPU."""
    return round(torch.cuda.max_memory_allocated(device) / GIB, 2) if device.type == "cuda" else None


def report(name: str, device: torch.device, **values: object) -> None:
    """Print one JSON line."""
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    values = {**values, "peak_memory_gib": peak_memory_gib(device)}
    versions = {"torch": torch.__version__, "torchrl": torchrl.__version__, "tensordict": tensordict.__version__}
    facts = {"device": f"{device.type} {chip}", "threads": torch.get_num_threads(), **versions}
    print(json.dumps({"benchmark": name, **values, **facts}), flush=True)
