"""What each part of the learner is worth: short runs of the quick preset, one a change, the same time each.

python benchmarks/ablation.py --minutes 3 --seeds 0
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import report

from echelon.arena.evaluator import Evaluator
from echelon.env.form import Backend
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.models.registry import model_with
from echelon.learn.trainer import Trainer
from echelon.pipelines.console import settings


def with_model(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    """The same run of another network."""
    return lambda run: dataclasses.replace(run, model=dataclasses.replace(run.model, **changes))


def without_memory(run: TrainConfig) -> TrainConfig:
    """The same run of a feed-forward network of the same sizes."""
    return dataclasses.replace(run, model=model_with("mlp", run.model))


def unchanged(run: TrainConfig) -> TrainConfig:
    """The run as it is."""
    return run


def without_curriculum(run: TrainConfig) -> TrainConfig:
    """Every battle against the commander of the last stage."""
    return dataclasses.replace(run, opponent=f"heuristic:{run.curriculum.opponents[-1]}")


CASES: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "default": unchanged,
    "no LSTM": without_memory,
    "no curriculum": without_curriculum,
    "no path observation": with_model(path_observed=False),
    "fixed std": with_model(std="fixed"),
    "central critic": with_model(critic="central"),
}


@dataclass(frozen=True)
class Args:
    """What to run."""

    cases: tuple[str, ...] = tuple(CASES)
    seeds: tuple[int, ...] = (0,)
    minutes: float = 3.0
    """Of collecting and learning, a run."""
    num_envs: int = 128
    battles: int = 64
    """Battles against each commander after a run."""
    tiers: tuple[str, ...] = ("easy", "normal", "hard")
    backend: Backend = "eager"
    device: str = "auto"


def run(case: str, seed: int, args: Args) -> None:
    """Train and judge one case; one JSON line."""
    config = dataclasses.replace(
        TrainConfig.quick(),
        num_envs=args.num_envs,
        seed=seed,
        total_agent_steps=10**12,
        max_minutes=args.minutes,
        backend=args.backend,
        device=args.device,
        checkpoint_every=10**9,
        evaluation=EvalConfig(battles=2, final_battles=args.battles, tiers=args.tiers),
    )
    config = CASES[case](config)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder))
        while not trainer.finished:
            trainer.iterate()
        scores = Evaluator(trainer.policy, config, Path(folder)).evaluate_final()[:-1]
    report(
        "ablation",
        trainer.device,
        case=case,
        seed=seed,
        minutes=args.minutes,
        agent_steps=trainer.counters.agent_steps,
        parameters=trainer.policy.num_parameters(),
        stage=trainer.curriculum.stage.number + 1,
        **{f"win_rate_{score.rival.partition(':')[2]}": round(score.win_rate, 3) for score in scores},
        battles=args.battles,
    )


def main(args: Args) -> None:
    """Run every case from every seed."""
    for case in args.cases:
        for seed in args.seeds:
            run(case, seed, args)


if __name__ == "__main__":
    main(settings(Args, __doc__))
