"""Slowdown by other programs: training, or a command, alone and beside busy processes. One JSON line.

python benchmarks/busy.py --preset quick --busy 4
python benchmarks/busy.py --busy 4 --command "python pipelines/arena.py play --battles 64"
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from measure import report

from echelon.learn.config import TRAIN_PRESETS
from echelon.learn.trainer import Trainer
from echelon.runtime.command_line import settings

SPIN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["quick", "standard"] = "quick"
    num_envs: int = 0
    """Number of battles; 0 takes that of the preset."""
    iterations: int = 4
    """Training iterations, alone and beside the busy processes; one more runs before."""
    command: str = ""
    """Command to measure in place of training."""
    busy: int = 4
    """Number of processes that compute all the time, at the usual priority."""
    seconds: float = 300.0
    """The busy processes end after this time; unfinished iterations are not counted."""


def main(args: Args) -> None:
    """Measure both and report the ratio."""
    rates = measure_command(args) if args.command else measure_training(args)
    alone, beside = rates["alone"], rates["beside"]
    ratio = alone / beside if args.command else beside / alone
    facts = {"command": args.command} if args.command else {"preset": args.preset, "threads": torch.get_num_threads()}
    unit = "s" if args.command else "agent_steps_per_s"
    rounded = {f"{name}_{unit}": round(value, 1) for name, value in rates.items()}
    report("busy", torch.device("cpu"), **facts, busy=args.busy, **rounded, ratio=round(ratio, 3))


@contextlib.contextmanager
def busy_machine(number: int, seconds: float) -> Iterator[None]:
    """Context manager: run busy processes for at most the given seconds."""
    code = SPIN.format(seconds=seconds)
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_training(args: Args) -> dict[str, float]:
    """Return agent-steps a second, medians over iterations, alone and beside the busy processes."""
    preset = TRAIN_PRESETS[args.preset]()
    # No early stop: each epoch runs.
    ppo = dataclasses.replace(preset.ppo, target_kl=0.0)
    config = dataclasses.replace(
        preset, num_envs=args.num_envs or preset.num_envs, ppo=ppo, device="cpu", opponent="heuristic:normal"
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder))
        trainer.iterate()

        def rate(ends: float) -> float:
            rates: list[float] = []
            while len(rates) < args.iterations and (not rates or time.monotonic() < ends):
                rates.append(trainer.iterate()["agent_steps_per_s"] or 0.0)
            return statistics.median(rates)

        alone = rate(time.monotonic() + args.seconds)
        with busy_machine(args.busy, args.seconds):
            beside = rate(time.monotonic() + args.seconds)
    return {"alone": alone, "beside": beside}


def measure_command(args: Args) -> dict[str, float]:
    """Return the seconds of a command alone and beside the busy processes."""

    def seconds() -> float:
        start_s = time.monotonic()
        subprocess.run(shlex.split(args.command), check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - start_s

    alone = seconds()
    with busy_machine(args.busy, args.seconds):
        return {"alone": alone, "beside": seconds()}


if __name__ == "__main__":
    main(settings(Args, __doc__))
