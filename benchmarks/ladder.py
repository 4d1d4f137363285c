"""Matches between scripted tiers: each against the tier below, and expert against normal.

python benchmarks/ladder.py --battles 200
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Literal

from echelon.agents.heuristic import TIERS, scripted
from echelon.arena.config import ArenaConfig
from echelon.arena.match import play
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    preset: Literal["small", "standard", "large"] = "standard"
    battles: int = 200
    """Battles a pair; each seed is played on both sides."""
    seed: int = 0
    device: str = "auto"
    compiled: bool = False


def main(args: Args) -> None:
    """Play each pair; print a JSON line each."""
    device, config = use_device(resolve_device(args.device)), ENV_PRESETS[args.preset]()
    upwards = [(better, worse) for worse, better in itertools.pairwise(TIERS)]
    for x, y in (*upwards, ("expert", "normal")):
        better, worse = (scripted(f"heuristic:{tier}", config, device) for tier in (x, y))
        result = play(
            better, worse, config, args.battles, args.seed, ArenaConfig(device, args.battles, compiled=args.compiled)
        )
        low, high = result.x_win_rate_95
        row = {
            "x": x,
            "y": y,
            "preset": args.preset,
            "battles": result.battles,
            "x_wins": result.x_wins,
            "y_wins": result.y_wins,
            "x_win_rate_95": [round(low, 3), round(high, 3)],
            "battles_per_s": round(result.battles / result.seconds, 2),
        }
        print(json.dumps({"benchmark": "ladder", **row}), flush=True)


if __name__ == "__main__":
    main(settings(Args, __doc__))
