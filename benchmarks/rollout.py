"""The environment with policy inference: one LSTM network plays both teams. One JSON line.

python benchmarks/rollout.py --num-envs 1024
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from measure import report, seconds

from echelon.env.env import EchelonEnv
from echelon.env.form import Backend
from echelon.env.observation.layout import GROUPS
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.views.group_policy import GroupPolicy, memory_spec


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    num_envs: int = 1024
    hidden: int = 128
    backend: Backend = "auto"
    decisions: int = 8
    """Number of timed decisions; the median is reported."""
    device: str = "auto"


def main(args: Args) -> None:
    """Measure and report."""
    device = use_device(resolve_device(args.device))
    config = ENV_PRESETS[args.preset]()
    policy = LSTMConfig(hidden=args.hidden).build(PolicySpecs(config.comm_dim)).to(device).eval()
    seats = [GroupPolicy(policy, group, "mine") for group in GROUPS]
    memory = memory_spec(mine=policy)
    env = EchelonEnv(config, args.num_envs, device=device, seed=0, memory=memory, backend=args.backend)
    latest = [env.reset()]

    def decide() -> None:
        td = latest[0]
        for seat in seats:
            td = seat(td)
        latest[0] = env.step_and_maybe_reset(td)[1]

    with torch.inference_mode():
        decide()
        step_s = seconds(decide, device, args.decisions)
    sizes = {"preset": args.preset, "num_envs": args.num_envs, "agents": config.num_mechs, "hidden": args.hidden}
    speed = round(args.num_envs * config.num_mechs / step_s)
    report("rollout", device, **sizes, backend=args.backend, agent_steps_per_s=speed)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    main(settings(Args, __doc__))
