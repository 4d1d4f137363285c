"""What every benchmark shares: a median of repeats, and one JSON line with sizes, device and versions."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable

import tensordict
import torch
import torchrl


def seconds(run: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3) -> float:
    """Median wall time of `run`, after warm-up, the device synchronised around each."""

    def timed() -> float:
        began = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    for _ in range(warmup):
        timed()
    return statistics.median(timed() for _ in range(repeats))


def report(name: str, device: torch.device, **values: object) -> None:
    """Print one JSON line."""
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = {"torch": torch.__version__, "torchrl": torchrl.__version__, "tensordict": tensordict.__version__}
    facts = {"device": f"{device.type} {chip}", "threads": torch.get_num_threads(), **versions}
    print(json.dumps({"benchmark": name, **values, **facts}), flush=True)
