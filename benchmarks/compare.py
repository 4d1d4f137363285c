"""Echelon beside VMAS, in turn in one process, random actions; JSON lines and the ratio. Needs `pip install vmas`.

python benchmarks/compare.py --num-envs 1024
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro
from env import Player
from measure import in_turn, report

from echelon import EchelonEnv, EnvConfig
from echelon.runtime.device import resolve_device

SIDES: dict[str, dict[str, object]] = {
    "football": {"n_blue_agents": 10, "n_red_agents": 10, "ai_red_agents": False},
}
"""Arguments of scenarios that make them as large as our battle: twenty agents, none of them scripted."""


@dataclass(frozen=True)
class Args:
    """What to measure."""

    num_envs: int = 1024
    scenario: str = "football"
    rounds: int = 12
    """Each round steps both once; medians count."""
    device: str = "auto"


def vmas_stepper(args: Args, device: torch.device) -> tuple[Callable[[], object], int]:
    """One step of every VMAS environment under actions drawn once, and how many agents act."""
    from vmas import make_env

    sides = SIDES.get(args.scenario, {})
    env = make_env(args.scenario, num_envs=args.num_envs, device=device, continuous_actions=True, seed=0, **sides)
    env.reset()
    drawn = [env.get_random_action(agent) for agent in env.agents]
    return lambda: env.step(drawn), len(env.agents)


def main(args: Args) -> None:
    """Step both in turn."""
    device = resolve_device(args.device)
    config = EnvConfig.standard()
    player = Player(EchelonEnv(config, args.num_envs, device=device, seed=0))
    step_theirs, their_agents = vmas_stepper(args, device)
    with torch.inference_mode():
        in_turn(step_theirs, player.decide, device, rounds=3)
        theirs_s, ours_s, _ = in_turn(step_theirs, player.decide, device, args.rounds)
    ours, theirs = args.num_envs * config.num_mechs / ours_s, args.num_envs * their_agents / theirs_s
    lines = (("standard 10v10", config.num_mechs, ours), (f"VMAS {args.scenario}", their_agents, theirs))
    for scenario, agents, speed in lines:
        sizes = {"scenario": scenario, "num_envs": args.num_envs, "agents": agents}
        report("compare", device, **sizes, agent_steps_per_s=round(speed))
    report("compare", device, scenario=args.scenario, ratio_to_vmas=round(ours / theirs, 3))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
