"""Arena throughput: battles per second of one batch between two scripted commanders. One JSON line.

python benchmarks/arena.py --preset small --battles 64
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tyro
from measure import report

from echelon.config import ENV_PRESETS
from echelon.league.match import load_commander, play
from echelon.learn.machine import resolve_device


@dataclass(frozen=True)
class Args:
    """What to measure."""

    preset: Literal["small", "standard", "large"] = "small"
    battles: int = 64
    compiled: bool = False
    device: str = "auto"


def main(args: Args) -> None:
    """Fight one match."""
    device, env = resolve_device(args.device), ENV_PRESETS[args.preset]()
    x, y = (load_commander("heuristic:normal", env, device) for _ in range(2))
    result = play(x, y, env, args.battles, 0, device, args.compiled)
    report(
        "arena",
        device,
        preset=args.preset,
        battles=args.battles,
        compiled=args.compiled,
        battles_per_s=round(args.battles / result.seconds, 2),
        agent_steps_per_s=round(sum(result.decisions) * env.num_mechs / result.seconds),
    )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
