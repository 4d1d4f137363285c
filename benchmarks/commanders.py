"""Value of a commander: win rates of pack commanders against the same team without a commander.

python benchmarks/commanders.py
python benchmarks/commanders.py orders:gather llm:commander.json --seeds 64

Prints one row of a Markdown table per commander, with the 95 % interval over seeds, then a JSON line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from echelon.agents.names import resolve
from echelon.arena.match import named_match
from echelon.arena.pack_commanders import with_orders
from echelon.command.pack_policy import PackCommander, PackPolicy
from echelon.pipelines.arena_args import ArenaArgs
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.command_line import settings
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits
from echelon.runtime.terminal import run
from echelon.runtime.version import VERSION

BASELINES = ("orders:none", "orders:hold", "orders:gather", "orders:random")
COLUMNS = ("given", "late", "refused", "fallback", "tokens_per_battle", "seconds_per_battle")


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    names: tyro.conf.Positional[tuple[str, ...]] = BASELINES
    """Pack commanders: orders:SCRIPT[/MECHS], llm:FILE, recorded:FILE."""
    env: Literal["small", "standard", "large"] = "small"
    seeds: Annotated[int, Limits(1, 10**6, "seeds")] = 64
    """Number of seeds, each played on both sides."""
    seed: int = 0
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)


def main(args: Args) -> None:
    """Play the battles and print the table."""
    how, rows = args.arena.settings(), []
    print("| commander | mechs of both teams | battles | won | 95 % interval |")
    print("|---|---|---|---|---|")
    for name in args.names:
        commander = resolve(name)
        require(isinstance(commander, PackCommander), "names", "commanders of packs, such as orders:hold", name)
        assert isinstance(commander, PackCommander)
        env = with_orders(ENV_PRESETS[args.env](), [commander])
        match = named_match(name, commander.mechs, env, 2 * args.seeds, how)
        (result,) = match.play(args.seed).values()
        policy = match.arena.policies(match.x)
        assert isinstance(policy, PackPolicy)
        summary = policy.giver.facts()["summary"]
        row = {"commander": name, "mechs": commander.mechs, **result.row()}
        rows.append(row | {column: summary.get(column) for column in COLUMNS})
        share = f"{row['low']:.0%} to {row['high']:.0%}"
        print(f"| {name} | {commander.mechs} | {row['battles']} | {row['win_rate']:.0%} | {share} |", flush=True)
    print(json.dumps({"env": args.env, "seeds": args.seeds, "seed": args.seed, "echelon": VERSION, "rows": rows}))


if __name__ == "__main__":
    run(lambda: main(settings(Args, __doc__)))
