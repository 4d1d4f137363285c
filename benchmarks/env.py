"""Environment throughput with random actions, eager and compiled. One JSON line each.

python benchmarks/env.py --preset standard --num-envs 256
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from measure import once, report, seconds
from tensordict import TensorDictBase

from echelon import EchelonEnv
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.profiling import profiled


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 256
    modes: tuple[Literal["eager", "compiled"], ...] = ("eager", "compiled")
    decisions: int = 20
    """Number of timed decisions; the median is reported."""
    device: str = "auto"
    profile: Path | None = None
    """File for a trace of three decisions of the last mode; also prints the most expensive parts."""


class Player:
    """Step an environment with fixed random actions."""

    def __init__(self, env: EchelonEnv) -> None:
        self.env = env
        self.actions = env.action_spec.rand()
        self.now: TensorDictBase = env.reset()

    def decide(self) -> None:
        """Play one decision of each battle, restarts included."""
        _, self.now = self.env.step_and_maybe_reset(self.now.update(self.actions))

    def measure(self, decisions: int) -> tuple[float, float]:
        """Return the seconds of the first decision, compilation included, and the median of later ones."""
        device = self.now.device
        with torch.inference_mode():
            return once(self.decide, device), seconds(self.decide, device, decisions)


def main(args: Args) -> None:
    """Measure each mode and report."""
    device = use_device(resolve_device(args.device))
    config = ENV_PRESETS[args.preset]()
    start_s = time.perf_counter()
    maps = EchelonEnv(config, 1, device=device, seed=0).sim_model.maps
    pool_s = time.perf_counter() - start_s
    for mode in args.modes:
        env = EchelonEnv(
            config, args.num_envs, device=device, seed=0, maps=maps, backend="auto" if mode == "compiled" else "eager"
        )
        player = Player(env)
        first_s, step_s = player.measure(args.decisions)
        report(
            "env",
            device,
            mode=mode,
            preset=args.preset,
            num_envs=args.num_envs,
            agents=config.num_mechs,
            agent_steps_per_s=round(args.num_envs * config.num_mechs / step_s),
            ms_per_decision=round(step_s * 1e3, 2),
            first_decision_s=round(first_s, 2),
            map_pool_s=round(pool_s, 2),
        )
    with torch.inference_mode(), profiled(args.profile):
        for _ in range(3):
            player.decide()


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    main(settings(Args, __doc__))
