"""How many orders are followed: packs are sent to places drawn at random, and the living who get there are counted.

python benchmarks/orders.py trained:quick --opponent heuristic:trivial
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass
from typing import Literal

import torch
import tyro

import echelon
from echelon.env.orders.told import destination
from echelon.rules.orders import Told
from echelon.runtime.geometry import length


@dataclass(frozen=True)
class Args:
    """What is measured."""

    policy: tyro.conf.Positional[str]
    """What plays the mechs: heuristic:TIER, trained:NAME, a checkpoint or run folder."""
    opponent: str = "heuristic:hard"
    """What plays the other team, whose packs are sent about too."""
    env: Literal["small", "standard", "large"] = "small"
    drill_s: float = 20.0
    """Seconds between two orders: the time in which a place is to be reached."""
    battles: int = 128
    seed: int = 1
    split: Literal["train", "validation"] = "validation"


@torch.no_grad()
def measure(args: Args) -> dict[str, object]:
    """Orders to mechs that lived until the next one, and how many of them got where they were sent."""
    command = echelon.CommandConfig(enabled=True, drill_s=args.drill_s, period=4)
    base = getattr(echelon.EnvConfig, args.env)()
    config = dataclasses.replace(base, command=command, split=args.split)
    view = echelon.commanders(config, args.policy, args.opponent, args.battles, seed=args.seed, side="blue")
    env, blue = view.env, view.env.teams["blue"]
    view.reset()
    memory, issued = torch.zeros(args.battles, blue.stop), torch.full((args.battles, blue.stop), -1.0)
    began, reached, times, count = issued.clone(), torch.zeros_like(issued, dtype=torch.bool), [], 0
    running = torch.ones(args.battles, dtype=torch.bool)
    while running.any():
        after = view.decide(None)
        heard, alive = env.state.orders_heard[:, blue, Told.ISSUED], env.state.mechs.alive[:, blue]
        is_new = (heard != issued) & running[:, None]
        count += int((is_new & (issued >= 0) & alive).sum())
        memory += (is_new & (issued >= 0) & alive & reached).float()
        began = torch.where(is_new, heard, began)
        place, is_sent, reach = destination(env.state, env.game)
        away = length(place - env.state.mechs.pos[..., :2])[:, blue]
        arrives = is_sent[:, blue] & (away < reach[:, blue]) & running[:, None]
        reached = reached & ~is_new
        first = arrives & ~reached
        times += ((env.state.tick[:, None] - began)[first] * config.rules.dt_s).tolist()
        reached, issued = reached | arrives, torch.where(is_new, heard, issued)
        running &= ~after["done"][:, 0]
    followed = int(memory.sum())
    return {
        "policy": args.policy,
        "opponent": args.opponent,
        "env": args.env,
        "drill_s": args.drill_s,
        "battles": args.battles,
        "orders": count,
        "followed": followed,
        "share": followed / max(count, 1),
        "median_s": statistics.median(times) if times else None,
    }


if __name__ == "__main__":
    print(json.dumps(measure(tyro.cli(Args, description=__doc__))))
