"""Compare the speed of Echelon and another environment, in turn in one process, with random actions. JSON lines.

python benchmarks/compare.py --num-envs 1024                  # VMAS football, ten a side: pip install vmas
python benchmarks/compare.py --num-envs 1024 --against smax   # JaxMARL's SMAX, ten a side: pip install jax jaxmarl
OMP_NUM_THREADS=1 python benchmarks/compare.py --clock cpu    # on a machine that others use
OMP_NUM_THREADS=2 python benchmarks/compare.py --busy 4       # beside four busy processes
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from busy import busy_machine
from env import Player
from measure import in_turn, report

from echelon import EchelonEnv, EnvConfig
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device

SIDES: dict[str, dict[str, object]] = {
    "football": {"n_blue_agents": 10, "n_red_agents": 10, "ai_red_agents": False},
}
"""Arguments of VMAS scenarios for the size of our battle: twenty agents, none scripted."""
TEAM = 10
"""Units a side in SMAX, none scripted."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    num_envs: int = 1024
    against: Literal["vmas", "smax"] = "vmas"
    scenario: str = "football"
    """The VMAS scenario."""
    rounds: int = 12
    """Each round steps both once; medians are reported."""
    clock: Literal["wall", "cpu"] = "wall"
    """`cpu`: CPU time of the threads of this process, independent of other programs."""
    busy: int = 0
    """Number of busy processes beside both, for at most ten minutes."""
    device: str = "auto"


Stepper = Callable[[], object]


def vmas_stepper(args: Args, device: torch.device) -> tuple[Stepper, int, str]:
    """Return a function that steps all VMAS environments with fixed actions, the number of agents, and the name."""
    from vmas import make_env

    sides = SIDES.get(args.scenario, {})
    env = make_env(args.scenario, num_envs=args.num_envs, device=device, continuous_actions=True, seed=0, **sides)
    env.reset()
    actions = [env.get_random_action(agent) for agent in env.agents]
    return lambda: env.step(actions), len(env.agents), f"VMAS {args.scenario}"


def smax_stepper(args: Args, device: torch.device) -> tuple[Stepper, int, str]:
    """Return a compiled step of all SMAX environments with fixed random actions, restarts included."""
    import jax
    from jaxmarl import make

    env = make("SMAX", num_allies=TEAM, num_enemies=TEAM)
    begin, key = jax.random.split(jax.random.PRNGKey(0))
    _, state = jax.vmap(env.reset)(jax.random.split(begin, args.num_envs))
    batch_actions = {
        agent: jax.vmap(env.action_space(agent).sample)(jax.random.split(jax.random.fold_in(key, i), args.num_envs))
        for i, agent in enumerate(env.agents)
    }
    step: Any = jax.jit(jax.vmap(env.step))
    loop_carry = {"state": state, "key": key}

    def decide() -> None:
        loop_carry["key"], step_key = jax.random.split(loop_carry["key"])
        _, loop_carry["state"], *_ = jax.block_until_ready(
            step(jax.random.split(step_key, args.num_envs), loop_carry["state"], batch_actions)
        )

    return decide, len(env.agents), f"SMAX {TEAM}v{TEAM}"


def main(args: Args) -> None:
    """Step both in turn and report."""
    device = use_device(resolve_device(args.device))
    config = EnvConfig.standard()
    player = Player(EchelonEnv(config, args.num_envs, device=device, seed=0))
    build = vmas_stepper if args.against == "vmas" else smax_stepper
    step_theirs, their_agents, their_name = build(args, device)
    clock = time.process_time if args.clock == "cpu" else time.perf_counter
    with torch.inference_mode(), busy_machine(args.busy, seconds=600):
        in_turn(step_theirs, player.decide, device, rounds=3)
        theirs_s, ours_s, _ = in_turn(step_theirs, player.decide, device, args.rounds, clock)
    agent_rate, their_rate = args.num_envs * config.num_mechs / ours_s, args.num_envs * their_agents / theirs_s
    lines = (("standard 10v10", config.num_mechs, agent_rate), (their_name, their_agents, their_rate))
    for scenario, agents, speed in lines:
        sizes = {"scenario": scenario, "num_envs": args.num_envs, "agents": agents, "clock": args.clock}
        report("compare", device, **sizes, agent_steps_per_s=round(speed))
    report("compare", device, against=their_name, ratio=round(agent_rate / their_rate, 3))


if __name__ == "__main__":
    main(settings(Args, __doc__))
