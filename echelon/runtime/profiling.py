"""Profile a program: write a trace, and print a table of the most expensive parts."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile, record_function

from echelon.runtime.files import FileError, atomic_write

ROWS = 10
PREFIX = "echelon."
ON_HOST = ("cpu_op", "user_annotation")
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of trace events: calls on the host, and kernels and copies on a GPU."""


def part(name: str) -> record_function:
    """Context manager that marks its body as a part of a decision in profiles."""
    return record_function(f"{PREFIX}{name}")


@contextlib.contextmanager
def profiled(out: Path | None) -> Iterator[None]:
    """Context manager that profiles all threads, writes a trace for Perfetto to `out`, and prints the `ROWS` longest
    entries.

    If `out` is None, nothing is profiled.
    """
    with profiled_between(out) as mark:
        mark()
        yield


@contextlib.contextmanager
def profiled_between(out: Path | None) -> Iterator[Callable[[], object]]:
    """Profile only a part of the body, because the events of a whole match would need gigabytes of memory; see
    `profiled`.

    Yields:
        A function to call periodically. The first call of the function starts the profiler, and the third call stops
        it. The end of the body also stops the profiler.
    """
    if out is None:
        yield lambda: None
        return
    check_name(out)
    profile_run, calls = profiler(), 0

    def mark() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            profile_run.start()
        elif calls == 3:
            profile_run.stop()

    try:
        yield mark
    finally:
        if calls in (1, 2):
            profile_run.stop()
    if calls > 0:
        report(profile_run, out)


def check_name(out: Path) -> None:
    """Raise `FileError` for a file name that the profiler cannot write."""
    if not str(out).isprintable():
        raise FileError(f"{out}: cannot be written: the profiler accepts only printable file names")


def profiler() -> profile:
    """Return a profiler of all threads, and of the GPU if there is one."""
    all_threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    return profile(activities=kinds, experimental_config=all_threads)


def report(recording: profile, out: Path) -> None:
    """Write the trace of a profile to `out`, and print its tables."""
    events = write_trace(recording, out)
    console = Console(width=120)
    for title, rows in (
        ("parts, including their calls", totals(events)),
        ("operations on the host, excluding their calls", own_times(events, ON_HOST)),
        ("kernels on the GPU", own_times(events, ON_GPU)),
    ):
        if rows:
            console.print(table(title, rows))
    console.print(f"trace {out}")


def write_trace(recording: profile, out: Path) -> list[dict[str, Any]]:
    """Write the trace of a profile, and return its events."""
    with atomic_write(out) as path:
        recording.export_chrome_trace(str(path))
        # The profiler does not report a full disk, so check that the file is complete.
        if not path.exists() or not (text := path.read_text()).rstrip().endswith("}"):
            raise FileError(f"{out}: cannot be written: the trace is incomplete")
    return list(json.loads(text)["traceEvents"])


def totals(events: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the durations in ms of all calls of the parts marked by `part`, keyed by name."""
    durations: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "user_annotation" and event["name"].startswith(PREFIX):
            durations[event["name"].removeprefix(PREFIX)].append(event["dur"] / 1e3)
    return dict(durations)


def own_times(events: Iterable[dict[str, Any]], categories: tuple[str, ...]) -> dict[str, list[float]]:
    """Return the durations in ms of all events of some categories, keyed by name, excluding nested calls.

    The profiler's own `key_averages` takes minutes for the million events of a training iteration.
    """
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in categories:
            threads[event["pid"], event["tid"]].append(event)
    durations: dict[str, list[float]] = defaultdict(list)
    for thread_events in threads.values():
        thread_events.sort(key=lambda event: (event["ts"], -event["dur"]))
        open_calls: list[tuple[float, str, int]] = []  # Each open call: end time, name, index in `durations[name]`
        for event in thread_events:
            name, duration = event["name"], event["dur"] / 1e3
            while open_calls and open_calls[-1][0] <= event["ts"]:
                open_calls.pop()
            if open_calls:
                _, caller, index = open_calls[-1]
                durations[caller][index] -= duration
            open_calls.append((event["ts"] + event["dur"], name, len(durations[name])))
            durations[name].append(duration)
    return dict(durations)


def table(title: str, rows: dict[str, list[float]]) -> Table:
    """Return a table of the `ROWS` names with the longest total durations."""
    result = Table("name", "ms", "share", "calls", title=title)
    for column in result.columns[1:]:
        column.justify = "right"
    total_ms = sum(map(sum, rows.values()))
    for name, calls in sorted(rows.items(), key=lambda row: -sum(row[1]))[:ROWS]:
        total = sum(calls)
        result.add_row(name[:80], f"{total:.1f}", f"{total / total_ms:.0%}", str(len(calls)))
    return result


class Stopwatch:
    """Measures the time of named laps, with CUDA events on a GPU. Only `read` synchronizes with the device."""

    def __init__(self, device: torch.device) -> None:
        self.is_cuda = device.type == "cuda"
        self.laps: list[tuple[str, Any, Any]] = []
        self.last = self._now()

    def _now(self) -> Any:
        if not self.is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        self.last = self._now()

    def lap(self, name: str) -> None:
        """Attribute the time since the last lap to `name`."""
        now = self._now()
        self.laps.append((name, self.last, now))
        self.last = now

    def read(self) -> dict[str, float]:
        """Return the seconds per name since the last call of `read`."""
        if self.is_cuda:
            torch.cuda.synchronize()
        times: dict[str, float] = {}
        for name, began, ended in self.laps:
            seconds = began.elapsed_time(ended) / 1e3 if self.is_cuda else ended - began
            times[name] = times.get(name, 0.0) + seconds
        self.laps = []
        return times
