"""Training throughput: rollout with policy inference, and the update. One JSON line.

python benchmarks/train.py --preset quick --num-envs 128
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from measure import report

from echelon.learn.config import TRAIN_PRESETS
from echelon.learn.trainer import Trainer


@dataclass(frozen=True)
class Args:
    """What to measure."""

    preset: Literal["quick", "standard", "large"] = "quick"
    num_envs: int = 0
    """Battles; 0 takes the preset's."""
    iterations: int = 5
    compiled: bool = True
    device: str = "auto"


def main(args: Args) -> None:
    """Run a few iterations and report the median after the first."""
    preset = TRAIN_PRESETS[args.preset]()
    num_envs = args.num_envs or preset.num_envs
    config = dataclasses.replace(
        preset, num_envs=num_envs, compiled=args.compiled, device=args.device, checkpoint_every=10**9
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder))
        rows = [trainer.iterate() for _ in range(args.iterations + 1)][1:]
        trainer.metrics.close()

    def median(name: str) -> float:
        return statistics.median(row[name] or 0.0 for row in rows)

    report(
        "train",
        trainer.device,
        preset=args.preset,
        num_envs=num_envs,
        compiled=args.compiled,
        hidden=config.model.hidden,
        epochs=config.ppo.epochs,
        agent_steps_per_s=round(median("agent_steps_per_s")),
        act_s=round(median("act_s"), 3),
        learn_s=round(median("learn_s"), 3),
    )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
