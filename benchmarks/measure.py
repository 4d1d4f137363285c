"""What every benchmark shares: a median of repeats, and one JSON line with sizes, device and versions."""

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
# What is measured is never the dense form that battles take while another process compiles the loops.
os.environ["ECHELON_COMPILE"] = "wait"


Clock = Callable[[], float]


def once(run: Callable[[], object], device: torch.device, clock: Clock = time.perf_counter) -> float:
    """Wall time of `run`, or that of another `clock`, the device synchronised after it."""
    start_s = clock()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start_s


def seconds(run: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3) -> float:
    """Median wall time of `run`, after warm-up, the device synchronised around each."""
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
    """Two things run in turn, so that a noisy machine is as noisy for both.

    Returns:
        The median time of each, and the median of the second's over the first's.
    """
    pairs = [(once(one, device, clock), once(other, device, clock)) for _ in range(rounds)]
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second), statistics.median(b / a for a, b in pairs)


def peak_memory_gib(device: torch.device) -> float | None:
    """GiB of a GPU's memory that tensors of this process have taken at the most; None on a CPU."""
    return round(torch.cuda.max_memory_allocated(device) / GIB, 2) if device.type == "cuda" else None


def report(name: str, device: torch.device, **values: object) -> None:
    """Print one JSON line."""
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    values = {**values, "peak_memory_gib": peak_memory_gib(device)}
    versions = {"torch": torch.__version__, "torchrl": torchrl.__version__, "tensordict": tensordict.__version__}
    facts = {"device": f"{device.type} {chip}", "threads": torch.get_num_threads(), **versions}
    print(json.dumps({"benchmark": name, **values, **facts}), flush=True)
