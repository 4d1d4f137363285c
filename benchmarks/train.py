"""Training throughput: environment, acting and update. One JSON line.

python benchmarks/train.py --preset standard
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from measure import report

from echelon.env.form import Backend
from echelon.learn.config import TRAIN_PRESETS
from echelon.learn.trainer import Trainer
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["quick", "standard", "large"] = "quick"
    num_envs: int = 0
    """Number of battles; 0 takes 128 on a CPU, and on a GPU the number of the preset or what fits."""
    opponent: str = "heuristic:normal"
    epochs: int = 4
    minibatches: int = 8
    iterations: int = 5
    """Number of measured iterations; two more run before."""
    backend: Backend = "auto"
    compile_policy: Literal["auto", "off", "act", "all"] = "act"
    cuda_graphs: Literal["auto", "off", "on"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"


def main(args: Args) -> None:
    """Run a few iterations and report medians."""
    preset, device = TRAIN_PRESETS[args.preset](), resolve_device(args.device)
    config = dataclasses.replace(
        preset,
        num_envs=args.num_envs or (preset.num_envs if device.type == "cuda" else 128),
        opponent=args.opponent,
        # No early stop: each epoch runs.
        ppo=dataclasses.replace(preset.ppo, epochs=args.epochs, minibatches=args.minibatches, target_kl=0.0),
        backend=args.backend,
        compile_policy=args.compile_policy,
        cuda_graphs=args.cuda_graphs,
        precision=args.precision,
        device=args.device,
        checkpoint_every=10**9,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder))
        rows = [trainer.iterate() for _ in range(args.iterations + 2)][2:]

    def median(name: str) -> float:
        return statistics.median(row[name] or 0.0 for row in rows)

    steps = (rows[-1]["agent_steps"] or 0.0) / (rows[-1]["iteration"] or 1.0)
    report(
        "train",
        trainer.device,
        preset=args.preset,
        num_envs=trainer.config.num_envs,
        opponent=args.opponent,
        backend=args.backend,
        compile_policy=trainer.config.compile_policy,
        cuda_graphs=trainer.config.cuda_graphs,
        precision=str(trainer.policy.network.compute).removeprefix("torch."),
        hidden=config.model.hidden,
        parameters=trainer.policy.num_parameters(),
        epochs=args.epochs,
        agent_steps_per_s=round(median("agent_steps_per_s")),
        # Inside a CUDA graph, acting and the environment cannot be timed separately.
        **{
            f"{name}_us_per_agent_step": round(median(f"{name}_s") / steps * 1e6, 1)
            for name in ("env", "act", "learn")
            if rows[-1][f"{name}_s"] is not None
        },
    )


if __name__ == "__main__":
    main(settings(Args, __doc__))
