"""Share of followed orders: packs are sent to random places, and the living mechs that arrive are counted.

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
from echelon.env.orders.destination import destination
from echelon.rules.orders import OrderField
from echelon.runtime.command_line import settings
from echelon.runtime.geometry import length
from echelon.runtime.terminal import run


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    policy: tyro.conf.Positional[str]
    """Policy of the mechs: heuristic:TIER, trained:NAME, a checkpoint or run folder."""
    opponent: str = "heuristic:hard"
    """Policy of the other team, whose packs receive orders too."""
    env: Literal["small", "standard", "large"] = "small"
    drill_s: float = 20.0
    """Seconds between two orders, the time to reach a place."""
    reach_vox: float = echelon.CommandConfig.reach_vox
    """Largest distance that counts as arrived."""
    battles: int = 128
    seed: int = 1
    split: Literal["train", "validation"] = "validation"


@torch.no_grad()
def measure(args: Args) -> dict[str, object]:
    """Return `followed`: the share of orders that more than half of the pack's living mechs followed, among orders to
    packs with a living mech until the next order. Also return `arrived`: the share of these mechs that arrived."""
    command = echelon.CommandConfig(enabled=True, drill_s=args.drill_s, period=4, reach_vox=args.reach_vox)
    base = getattr(echelon.EnvConfig, args.env)()
    config = dataclasses.replace(base, command=command, split=args.split)
    view = echelon.commanders(config, args.policy, args.opponent, args.battles, seed=args.seed, side="blue")
    env, blue = view.env, view.env.teams["blue"]
    packs = [span for span in env.sim_model.roster.packs if span.start < blue.stop]
    view.reset()
    shape = (args.battles, blue.stop)
    issued, reached = torch.full(shape, -1.0), torch.zeros(shape, dtype=torch.bool)
    running = torch.ones(args.battles, dtype=torch.bool)
    orders, mechs, times = [0, 0], [0, 0], []
    while running.any():
        after = view.decide(None)
        issued_now, alive = env.state.orders_heard[:, blue, OrderField.ISSUED], env.state.mechs.alive[:, blue]
        is_new = (issued_now != issued) & running[:, None]
        lived = is_new & (issued >= 0) & alive
        for pack in packs:
            living, arrived = lived[:, pack].sum(1), (lived & reached)[:, pack].sum(1)
            orders[0] += int((living > 0).sum())
            orders[1] += int(((living > 0) & (2 * arrived > living)).sum())
        mechs[0] += int(lived.sum())
        mechs[1] += int((lived & reached).sum())
        reached, issued = reached & ~is_new, torch.where(is_new, issued_now, issued)
        goal, is_sent, reach = destination(env.state, env.sim_model)
        distance = length(goal - env.state.mechs.pos[..., :2])[:, blue]
        first = is_sent[:, blue] & (distance < reach[:, blue]) & running[:, None] & ~reached
        times += ((env.state.tick[:, None] - issued)[first] * config.rules.dt_s).tolist()
        reached |= first
        running &= ~after["done"][:, 0]
    return {
        **dataclasses.asdict(args),
        "orders": orders[0],
        "followed": orders[1] / max(orders[0], 1),
        "mechs": mechs[0],
        "arrived": mechs[1] / max(mechs[0], 1),
        "median_s": statistics.median(times) if times else None,
    }


if __name__ == "__main__":
    run(lambda: print(json.dumps(measure(settings(Args, __doc__)))))
