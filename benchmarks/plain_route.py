"""Compare `pipelines/torchrl_ppo.py` and the trainer: whole iterations, in turn in one process. JSON lines and ratio.

python benchmarks/plain_route.py
"""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from measure import in_turn, report

from echelon.env.form import Backend
from echelon.learn.config import TrainConfig
from echelon.learn.trainer import Trainer
from echelon.pipelines.torchrl_ppo import Args as PlainArgs
from echelon.pipelines.torchrl_ppo import make_env, make_networks, train
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device

WARMUP = 3
"""Rounds before the measurement, in which both routes compile."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    battles: int = 128
    steps: int = 32
    """Decisions of each mech in an iteration."""
    epochs: int = 4
    minibatches: int = 8
    opponent: str = "heuristic:easy"
    rounds: int = 8
    """Each round is one iteration of both, battles and update; medians are reported."""
    backend: Backend = "auto"
    compile_policy: Literal["off", "act", "all"] = "off"
    """Setting of the trainer only; the plain route does not have it."""
    device: str = "auto"


def trainer_config(args: Args) -> TrainConfig:
    """Return the preset `quick` with these sizes: as much work an iteration as the plain route."""
    preset = TrainConfig.quick()
    ppo = dataclasses.replace(
        preset.ppo, rollout_decisions=args.steps, epochs=args.epochs, minibatches=args.minibatches, target_kl=0.0
    )
    return dataclasses.replace(
        preset,
        num_envs=args.battles,
        opponent=args.opponent,
        ppo=ppo,
        backend=args.backend,
        compile_policy=args.compile_policy,
        device=args.device,
        checkpoint_every=10**9,
    )


def shared(args: Args) -> dict[str, Any]:
    """Return the fields that both routes report."""
    return {name: getattr(args, name) for name in ("battles", "steps", "epochs", "minibatches", "opponent", "backend")}


def main(args: Args) -> None:
    """Run an iteration of each in turn."""
    device = use_device(resolve_device(args.device))
    plain = PlainArgs(**shared(args), iterations=args.rounds + WARMUP, device=str(device))
    env = make_env(plain)
    networks = make_networks(env)
    iterations = train(env, *networks, plain)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(trainer_config(args), Path(folder))
        for rounds in (WARMUP, args.rounds):
            fast_s, plain_s, ratio = in_turn(trainer.iterate, lambda: next(iterations), device, rounds)
    steps = env.numel() * args.steps
    for route, seconds, modules in (("train", fast_s, [trainer.policy]), ("torchrl_ppo", plain_s, networks)):
        facts = {"route": route, **shared(args), "parameters": sum(p.numel() for m in modules for p in m.parameters())}
        report("plain_route", device, **facts, agent_steps_per_s=round(steps / seconds))
    report("plain_route", device, train_over_torchrl_ppo=round(ratio, 3))


if __name__ == "__main__":
    main(settings(Args, __doc__))
