"""Kernels a decision, waits for the device and peak memory of a training iteration on a GPU. One JSON line.

python benchmarks/gpu_launches.py --preset standard

Kernels and launches are counted by torch's profiler in one rollout; a captured graph of many kernels is one launch.
Waits are those that `torch.cuda.set_sync_debug_mode` reports for collecting and updating, without the report once an
iteration, which waits deliberately. On a CPU all values are null.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from measure import GIB, report
from torch.profiler import ProfilerActivity, profile

from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.footprint import training_bytes
from echelon.learn.trainer import Trainer
from echelon.runtime.command_line import settings
from echelon.runtime.profiling import write_trace

WAITED = "called a synchronizing CUDA operation"
"""Warning of torch if the host waits for the device."""
SHOWN = 5
"""Most places of waits that are listed."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["quick", "standard", "large"] = "standard"
    num_envs: int = 0
    """Number of battles; 0 takes the number that `train.py` would use."""
    opponent: str = "heuristic:normal"
    epochs: int = 4
    minibatches: int = 8
    compile_policy: Literal["auto", "off", "act", "all"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"


def run_config(args: Args) -> TrainConfig:
    """Return the config of the measured run, without early stop."""
    preset = TRAIN_PRESETS[args.preset]()
    overrides = {
        name: getattr(args, name) for name in ("num_envs", "opponent", "compile_policy", "precision", "device")
    }
    ppo = dataclasses.replace(preset.ppo, epochs=args.epochs, minibatches=args.minibatches, target_kl=0.0)
    return dataclasses.replace(preset, **overrides, ppo=ppo, checkpoint_every=10**9)


def count_launches(events: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Count kernels that the GPU ran, and launches of kernels and graphs by the host, in a trace."""
    totals = {"kernels": 0, "launches": 0}
    for event in events:
        kind = str(event.get("cat", ""))
        totals["kernels"] += kind == "kernel"
        totals["launches"] += kind in ("cuda_runtime", "cuda_driver") and "Launch" in str(event["name"])
    return totals


def launches_of(run: Callable[[], object], folder: Path) -> dict[str, int]:
    """Return `count_launches` of a function."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    return count_launches(write_trace(profiler, folder / "trace.json"))


@contextlib.contextmanager
def sync_debug(mode: Literal["warn", "error"]) -> Iterator[None]:
    """Context manager: torch warns of each wait for the device, or raises an error."""
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def waits_of(run: Callable[[], object]) -> Counter[str]:
    """Count how often a function waits for the device, by file and line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with sync_debug("warn"):
            run()
    return count_waits(caught)


def count_waits(told: Iterable[warnings.WarningMessage]) -> Counter[str]:
    """Count warnings about waits, by file and line."""
    return Counter(
        f"{Path(warning.filename).name}:{warning.lineno}" for warning in told if WAITED in str(warning.message)
    )


def first_wait(run: Callable[[], object]) -> str:
    """Run a function with waits as errors; return `none` or the first error."""
    with sync_debug("error"):
        try:
            run()
        except RuntimeError as error:
            return str(error).splitlines()[0]
    return "none"


def measure(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Measure kernels and waits of one warmed-up iteration; all null on a CPU."""
    if trainer.device.type != "cuda":
        names = ("kernels_per_decision", "launches_per_decision", "collect_waits", "update_waits", "first_wait")
        return dict.fromkeys(names)
    collector, decisions = trainer.collector, trainer.config.ppo.rollout_decisions
    launch_counts = launches_of(collector.collect, folder)

    def update() -> None:
        trainer.ppo.update(batch, collector.memory)

    def iterate() -> None:
        collector.collect()
        update()

    collecting = waits_of(collector.collect)
    batch = collector.collect()
    trainer.advantage(batch)
    updating = waits_of(update)
    return {
        **{f"{name}_per_decision": round(count / decisions, 1) for name, count in launch_counts.items()},
        "collect_waits": collecting.total(),
        "update_waits": updating.total(),
        "where": dict((collecting + updating).most_common(SHOWN)),
        "first_wait": first_wait(iterate),
    }


def main(args: Args) -> None:
    """Run two iterations to compile everything, then measure."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(run_config(args), Path(folder))
        for _ in range(2):
            trainer.iterate()
        measured = measure(trainer, Path(folder))
    config = trainer.config
    sizes = {name: getattr(config, name) for name in ("num_envs", "precision", "compile_policy")}
    estimate = round(training_bytes(config, trainer.device) / GIB, 2)
    report("gpu_launches", trainer.device, preset=args.preset, **sizes, estimated_memory_gib=estimate, **measured)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    main(settings(Args, __doc__))
