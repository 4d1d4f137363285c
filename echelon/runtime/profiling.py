"""Where a program's time goes: a trace to look at, and the costliest parts in a table."""

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
"""Categories of a trace's events: what the host called, and what a GPU ran."""


def part(name: str) -> record_function:
    """Marks what runs inside as one part of a decision."""
    return record_function(f"{PREFIX}{name}")


@contextlib.contextmanager
def profiled(out: Path | None) -> Iterator[None]:
    """Profile what runs inside, all threads; write the trace to `out`, for Perfetto, and print the costliest `ROWS`.

    Without `out` nothing is profiled.
    """
    with profiled_between(out) as mark:
        mark()
        yield


@contextlib.contextmanager
def profiled_between(out: Path | None) -> Iterator[Callable[[], object]]:
    """As `profiled`, a part of what runs inside: the events of a whole match would take gigabytes of memory.

    Yields:
        A function to call now and then: its first call starts the profiler, the third one stops it, if the end does
        not.
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
    """Refuse a name that the profiler cannot write to."""
    if not str(out).isprintable():
        raise FileError(f"{out}: cannot be written: the profiler takes names of printable letters alone")


def profiler() -> profile:
    """Of all threads, and of the GPU if there is one."""
    all_threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    return profile(activities=kinds, experimental_config=all_threads)


def report(recording: profile, out: Path) -> None:
    events = write_trace(recording, out)
    console = Console(width=120)
    for title, rows in (
        ("parts, with all they call", totals(events)),
        ("operations of the host, by themselves", own_times(events, ON_HOST)),
        ("kernels of the GPU", own_times(events, ON_GPU)),
    ):
        if rows:
            console.print(table(title, rows))
    console.print(f"trace {out}")


def write_trace(recording: profile, out: Path) -> list[dict[str, Any]]:
    """Write the trace of a profile, and return its events."""
    with atomic_write(out) as path:
        recording.export_chrome_trace(str(path))
        # The profiler does not tell that a disk was full.
        if not path.exists() or not (text := path.read_text()).rstrip().endswith("}"):
            raise FileError(f"{out}: cannot be written: the trace is incomplete")
    return list(json.loads(text)["traceEvents"])


def totals(events: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Milliseconds of every call of the parts marked by `part`, by name."""
    durations: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "user_annotation" and event["name"].startswith(PREFIX):
            durations[event["name"].removeprefix(PREFIX)].append(event["dur"] / 1e3)
    return dict(durations)


def own_times(events: Iterable[dict[str, Any]], categories: tuple[str, ...]) -> dict[str, list[float]]:
    """Milliseconds of every call of events of some categories, by name, without the calls within it.

    The profiler's own `key_averages` takes minutes where a training iteration has a million events.
    """
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in categories:
            threads[event["pid"], event["tid"]].append(event)
    durations: dict[str, list[float]] = defaultdict(list)
    for thread_events in threads.values():
        thread_events.sort(key=lambda event: (event["ts"], -event["dur"]))
        open_calls: list[tuple[float, str, int]] = []  # until when, name, number among its calls
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
    result = Table("name", "ms", "share", "calls", title=title)
    for column in result.columns[1:]:
        column.justify = "right"
    total_ms = sum(map(sum, rows.values()))
    for name, calls in sorted(rows.items(), key=lambda row: -sum(row[1]))[:ROWS]:
        total = sum(calls)
        result.add_row(name[:80], f"{total:.1f}", f"{total / total_ms:.0%}", str(len(calls)))
    return result


class Stopwatch:
    """Seconds by what they were spent on, on the device's own clock. Reading it waits for the device, laps do not."""

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
        """The time since the last lap was spent on `name`."""
        now = self._now()
        self.laps.append((name, self.last, now))
        self.last = now

    def read(self) -> dict[str, float]:
        """Seconds by name since the last reading."""
        if self.is_cuda:
            torch.cuda.synchronize()
        times: dict[str, float] = {}
        for name, began, ended in self.laps:
            seconds = began.elapsed_time(ended) / 1e3 if self.is_cuda else ended - began
            times[name] = times.get(name, 0.0) + seconds
        self.laps = []
        return times
