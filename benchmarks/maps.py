"""Map generation: maps a second, seconds of a pool, and cost of restarts a step. A JSON line each.

python benchmarks/maps.py --preset standard
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from measure import in_turn, report, seconds

from echelon import EchelonEnv
from echelon.env.form import Backend
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.roster import build_roster
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device
from echelon.world.pool import make_maps


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    maps: tuple[int, ...] = (16, 64, 256)
    """Sizes of the map pools."""
    num_envs: int = 1024
    """Number of battles for the measurement of restarts; 0 skips it."""
    decisions: int = 12
    backend: Backend = "eager"
    device: str = "auto"


def restarts(args: Args, config: EnvConfig, device: torch.device) -> None:
    """Time a step with and without the masked restart of finished battles, in turn."""
    env = EchelonEnv(config, args.num_envs, device=device, seed=0, backend=args.backend)
    td = env.reset().update(env.action_spec.rand())

    def step_and_restart() -> None:
        env.maybe_reset(env.step(td).get("next").copy())

    with torch.inference_mode():
        step_and_restart()
        without, with_, ratio = in_turn(lambda: env.step(td), step_and_restart, device, args.decisions)
        reset_td = env.reset()
        ended = torch.ones_like(reset_td["done"])
        restart_s = seconds(lambda: env.maybe_reset(reset_td.set("done", ended)), device, args.decisions)
    report(
        "restarts",
        device,
        preset=args.preset,
        num_envs=args.num_envs,
        backend=args.backend,
        step_ms=round(without * 1e3, 2),
        step_and_restart_ms=round(with_ * 1e3, 2),
        median_ratio=round(ratio, 4),
        restart_of_all_ms=round(restart_s * 1e3, 2),
        share_of_step=round(restart_s / without, 4),
    )


def main(args: Args) -> None:
    """Create pools of each size, then measure restarts."""
    device, config = use_device(resolve_device(args.device)), ENV_PRESETS[args.preset]()
    roster = build_roster(config, device)
    for count in args.maps:
        seeds = torch.arange(count, device=device)
        pool_s = seconds(lambda seeds=seeds: make_maps(config, roster, seeds), device, repeats=3, warmup=1)
        report(
            "maps",
            device,
            preset=args.preset,
            maps=count,
            pool_s=round(pool_s, 3),
            maps_per_s=round(count / pool_s, 1),
        )
    if args.num_envs > 0:
        restarts(args, config, device)


if __name__ == "__main__":
    main(settings(Args, __doc__))
