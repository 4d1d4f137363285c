"""Where a program's time goes: a trace to look at, and the costliest parts in a table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

ROWS = 10


def part(name: str) -> record_function:
    """Marks what runs inside as one part of a decision."""
    return record_function(f"echelon.{name}")


@contextlib.contextmanager
def profiled(out: Path | None) -> Iterator[None]:
    """Profile what runs inside, all threads; write the trace to `out`, for Perfetto, and print the costliest `ROWS`.

    Without `out` nothing is profiled.
    """
    if out is None:
        yield
        return
    everyone = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with profile(activities=kinds, experimental_config=everyone) as found:
        yield
    found.export_chrome_trace(str(out))
    key = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    averages = found.key_averages()
    print(averages.table(sort_by=key, row_limit=ROWS, max_name_column_width=60))
    for row in averages:
        if row.key.startswith("echelon."):
            print(f"{row.key:24} {row.cpu_time_total / 1e3:10.1f} ms in {row.count} calls")
    print(f"trace {out}")
