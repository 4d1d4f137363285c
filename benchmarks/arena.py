"""Arena throughput, as JSON lines: one match; battles of a league in one batch and one at a time; stacked networks and
a loop over them.

python benchmarks/arena.py --battles 256 --alone 4 --policies 8
"""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from measure import report, seconds

from echelon.agents.runner import TeamObservation, TeamSeat
from echelon.agents.stacked import SLOTS, StackedForward, StackedPolicies
from echelon.arena.batch_arena import Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match
from echelon.arena.resolve import resolve
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import STREAMS, action_width
from echelon.league.league_arena import LeagueArena
from echelon.league.matchmaking import one_against
from echelon.league.store import Store
from echelon.learn.config import TrainConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "small"
    battles: int = 256
    """Battles in one batch."""
    alone: int = 4
    """Battles played one at a time."""
    policies: int = 8
    """Number of different networks that are stacked."""
    rows: int = 16
    """Teams of each network."""
    parts: tuple[Literal["stack", "league", "match"], ...] = ("stack", "league", "match")
    warm_up: bool = False
    """Play the match once before timing, to exclude compilation."""
    compiled: bool = False
    device: str = "auto"


def match(args: Args, env: EnvConfig, device: torch.device) -> None:
    """Time a match of two scripted commanders."""
    x, y = (resolve("heuristic:normal").policy(env, device) for _ in range(2))
    settings = ArenaConfig(device, args.battles, compiled=args.compiled)
    match_played = Match(("x", x), {"y": y}, env, args.battles, settings)
    if args.warm_up:
        match_played.play(1)
    result = match_played.play(0)["y"]
    report(
        "arena",
        device,
        preset=args.preset,
        battles=args.battles,
        compiled=args.compiled,
        battles_per_s=round(args.battles / result.seconds, 2),
        agent_steps_per_s=round(sum(outcome.decisions for outcome in result.outcomes) * env.num_mechs / result.seconds),
    )


def batched_over_alone(args: Args, env: EnvConfig, device: torch.device) -> None:
    """Time the same battles of a league in one batch, and one at a time."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "league", env)
        arena = LeagueArena(store, ArenaConfig(device, batch=args.battles, compiled=args.compiled))
        normal, *opponents = [entry.id for entry in store.entries() if not entry.name.startswith("heuristic:trivial@")]
        battles = one_against(normal, opponents, range(args.battles))[: args.battles]

        def play(some: list[Battle]) -> float:
            return sum(result.seconds for result in arena.arena.play_all(some))

        play(battles[:2])
        arena.arena.settings = replace(arena.arena.settings, batch=1)
        single = args.alone / play(battles[: args.alone])
        arena.arena.settings = replace(arena.arena.settings, batch=args.battles)
        batched = len(battles) / play(battles)
    sizes = {"preset": args.preset, "battles": args.battles, "alone": args.alone, "compiled": args.compiled}
    speeds = {"batched_per_s": round(batched, 3), "alone_per_s": round(single, 4), "ratio": round(batched / single, 1)}
    report("league", device, **sizes, **speeds)


def stacked_over_loop(args: Args, env: EnvConfig, device: torch.device) -> None:
    """Time K networks in one forward pass over stacked weights, and one after the other."""
    model, count = TrainConfig.quick().model, args.policies * args.rows
    policies = [model.build(PolicySpecs(env.comm_dim)).to(device).eval() for _ in range(args.policies)]
    td = EchelonEnv(env, count, device=device, seed=0).reset()
    mechs = len(env.blue)
    streams = {name: td.get(("blue", "observation", name)) for name in STREAMS}
    noise = torch.randn(count, mechs, action_width(env.comm_dim), device=device)
    observation = TeamObservation(streams, td.get(("blue", "mask")), td.get("telemetry"), noise)
    slots = [[TeamSeat(k * args.rows + row, row % SLOTS) for row in range(args.rows)] for k in range(args.policies)]
    forward = StackedForward(policies[0], device, torch.float32, args.compiled)
    stack_of_all = StackedPolicies(forward, policies, slots, mechs)
    loop_stacks = [
        StackedPolicies(forward, [policy], [policy_slots], mechs)
        for policy, policy_slots in zip(policies, slots, strict=True)
    ]
    with torch.inference_mode():
        stacked_s = seconds(lambda: stack_of_all.decide(observation), device, repeats=10)
        loop_s = seconds(lambda: [stack.decide(observation) for stack in loop_stacks], device, repeats=10)
    sizes = {"policies": args.policies, "rows": args.rows, "hidden": model.hidden}
    times = {"stacked_ms": round(1e3 * stacked_s, 2), "loop_ms": round(1e3 * loop_s, 2)}
    report("stack", device, **sizes, **times, ratio=round(loop_s / stacked_s, 2))


def main(args: Args) -> None:
    """Run all measurements."""
    device = use_device(resolve_device(args.device))
    env = dataclasses.replace(ENV_PRESETS[args.preset](), map_pool=16)
    for name, run in (("stack", stacked_over_loop), ("league", batched_over_alone), ("match", match)):
        if name in args.parts:
            run(args, env, device)


if __name__ == "__main__":
    main(settings(Args, __doc__))
