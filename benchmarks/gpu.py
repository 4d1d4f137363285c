"""Run the tests that need a GPU and all benchmarks on it: a table, and a JSON file with the command of each figure.

benchmarks/gpu.sh                         # on a machine with a GPU, ten minutes; --minutes 3 or 30 for less or more
benchmarks/gpu.sh --device cpu --tiny     # every step at a tiny size, to see that they run

A failed step is recorded with its last lines, and the next step runs. A step beyond its time limit is stopped; a step
that runs out of memory says so. The file is rewritten after each step. The status is 0 only if each step ran to its end
without a fallback.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gpu_steps import FIGURES, Minutes, Step, steps_of
from measure import GIB
from rich.console import Console
from rich.table import Table

from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, total_memory, use_device
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import write_whole
from echelon.runtime.version import VERSION

ROOT = Path(__file__).parents[1]
LAST_LINES = 15
FALLBACK = "fallback:"
"""Start of a line that reports a fallback to a simpler form."""
PYTEST_STEPS = {"tests": "tests that need a GPU", "cases": "cases of pytest-benchmark"}
"""Steps that run pytest, and the name of their tests."""
NO_MEMORY = ("OutOfMemoryError", "out of memory", "fewer num_envs")
"""Messages of torch and Echelon for too little memory."""
NO_GPU = "not measured: no GPU"
OK, FAILED, LATE, FELL_BACK, TOO_LARGE = "ok", "failed", "timed out", "fell back", "does not fit into memory"


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    device: str = "cuda"
    tiny: bool = False
    """Use tiny sizes, for a CPU."""
    minutes: Minutes = 10
    """Minutes for all steps: 3 for a check and uncompiled speed, 10 with training at its defaults, 30 for
    everything."""
    out: Path | None = None
    """The JSON file; by default benchmarks/results/DEVICE.json."""


@dataclass(frozen=True)
class Outcome:
    """The result of a step."""

    name: str
    command: str
    status: str
    """`ok`, `failed`, `timed out`, `fell back` or `does not fit into memory`."""
    seconds: float = 0.0
    reason: str = ""
    """The reason if it is not `ok`."""
    last_lines: tuple[str, ...] = ()
    """Last lines of its output, if it failed."""
    lines: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """JSON lines that it printed."""


def run_step(step: Step, limit_s: float) -> Outcome:
    """Run a step to its end, or until its time limit."""
    command, start_s = shlex.join(["python", *step.words]), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    # A file, not a pipe: a pipe stays open while a compiler started by the step still runs.
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, *step.words],
            cwd=ROOT,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Also after an interrupt of this program.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        spent_s = time.perf_counter() - start_s
        printed.seek(0)
        output = printed.read()
    outcome = Outcome(step.name, command, OK, round(spent_s, 1), lines=json_lines(output))
    if spent_s >= limit_s:
        last = tuple(line for line in output.splitlines() if line.strip())[-LAST_LINES:]
        return dataclasses.replace(outcome, status=LATE, reason=f"stopped after {limit_s:.0f} s", last_lines=last)
    return judged(outcome, process.returncode, output)


def judged(found: Outcome, code: int, output: str) -> Outcome:
    """Return the outcome of a finished step, from the status and output of its process."""
    last = tuple(line for line in output.splitlines() if line.strip())[-LAST_LINES:]
    if found.name in PYTEST_STEPS:
        counts = count_tests(output)
        found = dataclasses.replace(found, lines=({"benchmark": found.name, **counts},))
        if not counts:
            return dataclasses.replace(found, status=FAILED, reason="pytest reported no tests", last_lines=last)
    if code == 0:
        simpler = tuple(line for line in output.splitlines() if FALLBACK in line)
        reason = simpler[0].strip() if simpler else ""
        return dataclasses.replace(found, status=FELL_BACK, reason=reason, last_lines=simpler) if simpler else found
    if found.name in PYTEST_STEPS:
        return dataclasses.replace(found, status=FAILED, reason="tests failed", last_lines=last)
    if any(text in line for text in NO_MEMORY for line in last):
        return dataclasses.replace(found, status=TOO_LARGE, reason=last[-1])
    return dataclasses.replace(found, status=FAILED, reason=last[-1] if last else f"status {code}", last_lines=last)


def count_tests(output: str) -> dict[str, int]:
    """Return the number of tests by outcome, from the last line of pytest."""
    return {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", output)}


def json_lines(output: str) -> tuple[dict[str, Any], ...]:
    """Return the figures in a program's output: JSON lines that name their benchmark."""
    values = []
    for line in output.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            value = json.loads(line) if line.startswith("{") else None
            values += [value] if isinstance(value, dict) and isinstance(value.get("benchmark"), str) else []
    return tuple(values)


def figures_of(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the figures of a step, each with its command, or with the reason why it is missing."""
    figures: list[dict[str, Any]] = []
    for line in outcome.lines:
        if line["benchmark"] in PYTEST_STEPS:
            counts = ", ".join(f"{count} {kind}" for kind, count in line.items() if kind != "benchmark")
            label_of_step = PYTEST_STEPS[line["benchmark"]]
            figures.append({"figure": label_of_step, "value": counts or "none", "unit": "", "reason": ""})
        for figure in FIGURES.get(line["benchmark"], ()):
            if figure.name not in line and not figure.needs_gpu:
                continue
            value = line.get(figure.name)
            reason = NO_GPU if value is None and figure.needs_gpu else ""
            label = figure.label.format(**line)
            figures.append({"figure": label, "value": value, "unit": figure.unit, "reason": reason})
    if outcome.status != OK:
        reason = f"{outcome.status}: {outcome.reason}".removesuffix(": ")
        figures.append({"figure": outcome.name, "value": None, "unit": "", "reason": reason})
    return [{**figure, "command": outcome.command} for figure in figures]


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return device, driver, versions, commit and date."""
    packages = ("torch", "torchrl", "tensordict", "numpy")
    is_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_gpu else f"cpu {platform.machine()}",
        "memory_gib": round(total_memory(device) / GIB, 1),
        "driver": told_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if is_gpu else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "echelon": VERSION,
        **{name: importlib.metadata.version(name) for name in packages},
        "commit": told_by("git", "rev-parse", "HEAD"),
        "changed": bool(told_by("git", "status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def told_by(*command: str) -> str | None:
    """Return the first line that a program prints; None if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def slug(name: str) -> str:
    """Return a device's name as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def show(console: Console, machine: Mapping[str, Any], figures: Sequence[Mapping[str, Any]]) -> None:
    """Print the figures."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("torch", "torchrl", "tensordict", "python", "echelon"))
    table = Table("what", "value", "unit", title=f"{machine['device']}, {machine['memory_gib']} GiB; {versions}")
    table.columns[1].justify = "right"
    for figure in figures:
        value = figure["value"]
        number = f"{value:,}" if isinstance(value, int | float) else str(value)
        cell = figure["reason"] if value is None else number
        table.add_row(figure["figure"], cell[:80], "" if value is None else figure["unit"])
    console.print(table)


def main(args: Args) -> int:
    """Run all steps; return 1 unless each ran to its end."""
    device, console = use_device(resolve_device(args.device)), Console()
    machine, start_s = describe_machine(device), time.perf_counter()
    path = args.out or ROOT / "benchmarks" / "results" / f"{slug(machine['device'])}.json"
    steps, outcomes = steps_of(args.device, args.tiny, args.minutes), list[Outcome]()
    for number, step in enumerate(steps):
        console.print(f"{step.name} …", highlight=False)
        # Unused time of earlier steps is added; later steps keep theirs.
        kept_s = sum(later.limit_s for later in steps[number + 1 :])
        left_s = 60 * args.minutes - (time.perf_counter() - start_s) - kept_s
        outcomes.append(run_step(step, left_s if not args.tiny else step.limit_s))
        done = outcomes[-1]
        console.print(f"  {done.status}, {done.seconds} s", done.reason[:200], highlight=False, markup=False)
        for line in done.last_lines:
            console.print(f"  | {line[:300]}", highlight=False, markup=False)
        write_results(path, machine, outcomes, time.perf_counter() - start_s)
    show(console, machine, [figure for outcome in outcomes for figure in figures_of(outcome)])
    console.print(f"written to {path}", highlight=False, markup=False)
    return int(any(outcome.status != OK for outcome in outcomes))


def write_results(out: Path, machine: Mapping[str, Any], outcomes: Sequence[Outcome], seconds: float) -> None:
    """Write the file with all steps until now."""
    figures = [figure for outcome in outcomes for figure in figures_of(outcome)]
    steps = [{k: v for k, v in dataclasses.asdict(outcome).items() if k != "lines"} for outcome in outcomes]
    results = {**machine, "seconds": round(seconds, 1), "figures": figures, "steps": steps}
    write_whole(out, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    try:
        sys.exit(main(settings(Args, __doc__)))
    except ConfigError as error:
        sys.exit(f"error: {error}")
