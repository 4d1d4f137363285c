"""Echelon beside VMAS, in turn in one process, random actions; JSON lines and the ratio. Needs `pip install vmas`.

python benchmarks/compare.py --num-envs 1024
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro
from env import Player
from measure import report

from echelon import EchelonEnv, EnvConfig
from echelon.learn.machine import resolve_device


@dataclass(frozen=True)
class Args:
    """What to measure."""

    num_envs: int = 1024
    scenario: str = "football"
    compiled: bool = True
    rounds: int = 12
    """Each round steps both once; medians count."""
    device: str = "auto"


def vmas_stepper(args: Args, device: torch.device) -> tuple[Callable[[], object], int]:
    """One step of every VMAS environment under actions drawn once, and how many agents act."""
    from vmas import make_env

    env = make_env(args.scenario, num_envs=args.num_envs, device=device, continuous_actions=True, seed=0)
    env.reset()
    drawn = [env.get_random_action(agent) for agent in env.agents]
    return lambda: env.step(drawn), len(env.agents)


def main(args: Args) -> None:
    """Step both in turn."""
    device = resolve_device(args.device)
    config = EnvConfig.standard()
    player = Player(EchelonEnv(config, args.num_envs, device=device, seed=0, compiled=args.compiled))
    step_theirs, their_agents = vmas_stepper(args, device)
    steppers = {"echelon": (player.decide, config.num_mechs), "vmas": (step_theirs, their_agents)}
    spent: dict[str, list[float]] = {name: [] for name in steppers}
    with torch.inference_mode():
        for turn in range(args.rounds + 3):
            for name, (run, _) in steppers.items():
                began = time.perf_counter()
                run()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                if turn >= 3:
                    spent[name].append(time.perf_counter() - began)
    speeds = {name: args.num_envs * agents / statistics.median(spent[name]) for name, (_, agents) in steppers.items()}
    for name, (_, agents) in steppers.items():
        scenario = args.scenario if name == "vmas" else "standard 10v10"
        sizes = {"environment": name, "scenario": scenario, "num_envs": args.num_envs, "agents": agents}
        report("compare", device, **sizes, agent_steps_per_s=round(speeds[name]))
    report("compare", device, ratio_to_vmas=round(speeds["echelon"] / speeds["vmas"], 3), scenario=args.scenario)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
