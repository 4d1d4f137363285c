"""Balance of weapons and classes: commanders play against themselves or against another commander.

python benchmarks/balance.py --commanders heuristic:expert runs/mine/checkpoints/best --preset small

To measure the value of a weapon or class, remove it from one team: `--catalog` adds a hull without it, and
`--red-roster` gives that hull to red. `--biomes` shows whether a side has an advantage on some terrain.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from echelon.agents.tiers import TIERS
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import win_rate_interval
from echelon.arena.resolve import resolve
from echelon.env.outcome import BY_HULL, Reason, Winner, stat_names
from echelon.pipelines.battle_args import BattleArgs
from echelon.rules.catalog import Hull
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.versions import RULES_VERSION
from echelon.runtime import noise
from echelon.runtime.command_line import settings
from echelon.runtime.device import resolve_device, use_device

STANDSTILL_S = 15.0
"""Seconds without damage and score at the end of a battle after which it counts as still."""
ALSO = ("assists", "paints", "intercepts", "shutdowns", "vent_s", "team_kills", "knockdowns", "leggings")
"""Statistics printed beside the tables."""
SUPPORT = ("assist_hp", "paint_damage", "intercepted_damage")
"""Contributions of a class beside its damage, hit points."""


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    commanders: tuple[str, ...] = tuple(f"heuristic:{tier}" for tier in TIERS)
    """Commanders, by any name that `arena.py play` accepts."""
    against: str | None = None
    """Opponents, on each side in turn; by default each commander plays against itself. Both sides are counted."""
    preset: Literal["small", "standard", "large"] = "standard"
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)
    biomes: tuple[str, ...] = ()
    """Biomes to compare: each commander plays on maps of each biome in turn."""
    battles: int = 200
    """Battles a commander, each with its own seed and map."""
    seed: int = 0
    device: str = "auto"
    json: bool = False
    """Print a JSON line a commander instead of tables."""


def count(x: str, y: str, args: Args, config: EnvConfig, device: torch.device) -> dict[str, object]:
    """Play battles between two commanders; return how they ended, and the statistics of each weapon and class."""
    policies = {name: resolve(name).policy(config, device) for name in {x, y}}
    arena = BatchArena(config, policies.__getitem__, ArenaConfig(device, args.battles))
    seeds = noise.battle_seeds(args.seed, args.battles, torch.device("cpu")).tolist()
    sides = [(x, y), (y, x)]
    results = arena.play([Battle(*sides[number % 2], seed) for number, seed in enumerate(seeds)]).results
    winner, reason = [result.winner for result in results], [result.reason for result in results]
    names = stat_names(config.catalog)
    total = dict(zip(names, torch.tensor([result.stats for result in results]).sum((0, 1)).tolist(), strict=True))
    blue, red = (winner.count(side) for side in (Winner.BLUE, Winner.RED))
    return {
        "commander": x,
        "against": y,
        "rules_version": RULES_VERSION,
        "preset": args.preset,
        "biomes": config.world.biomes if args.biomes else "all",
        "battles": args.battles,
        "blue_wins": blue,
        "red_wins": red,
        "draws": args.battles - blue - red,
        "blue_share_95": win_rate_interval([1.0] * blue + [0.0] * red),
        **{r.name.lower(): reason.count(r) for r in Reason if r != Reason.RUNNING},
        "standstill": sum(result.idle_s >= STANDSTILL_S for result in results),
        "mean_s": sum(result.decisions for result in results) / len(results) * config.rules.decision_s,
        "weapons": {w: entries(w, ("shots", "hits", "damage", "kills"), total) for w in config.catalog.weapons},
        "hulls": {h.name.lower(): entries(h.name, (*BY_HULL, "deaths"), total) for h in Hull},
        **{name: total[name] for name in ("damage", "kills", "deaths", *ALSO)},
    }


def entries(name: str, kinds: Sequence[str], total: dict[str, float]) -> dict[str, float]:
    """Return the statistics of one weapon or class."""
    return {kind: total[f"{kind}_{name.lower()}"] for kind in kinds}


def contribution(row: dict[str, float]) -> float:
    """Return the contribution of a class, hit points: damage and support."""
    return row["damage"] + sum(row[kind] for kind in SUPPORT)


def share(part: float, whole: float) -> str:
    """Return a share in percent."""
    return f"{part / whole:.1%}" if whole > 0 else "-"


def show(found: dict, config: EnvConfig, console: Console) -> None:
    """Print the results; counts are means a battle, of both teams."""
    battles = found["battles"]
    classes = [config.catalog.class_of(hull).name.lower() for hull in (*config.blue, *config.red)]
    ground = "" if found["biomes"] == "all" else f" on {', '.join(found['biomes'])}"
    title = f"{found['commander']} against {found['against']}, {battles} battles of {found['preset']}{ground}"
    weapons = table(title, "weapon", "shots", "hits", "damage", "of all", "kills", "of all")
    for name, row in found["weapons"].items():
        numbers = [f"{row[kind] / battles:.1f}" for kind in ("shots", "hits", "damage")]
        kills = [f"{row['kills'] / battles:.2f}", share(row["kills"], found["kills"])]
        weapons.add_row(name, *numbers, share(row["damage"], found["damage"]), *kills)
    support = [kind.replace("_", " ") for kind in SUPPORT]
    hulls = table("", "class", "mechs", "damage", "of all", *support, "of all hp", "kills", "of all", "deaths", "lost")
    total = sum(contribution(row) for row in found["hulls"].values())
    for name, row in found["hulls"].items():
        columns = [f"{classes.count(name)}", f"{row['damage'] / battles:.1f}", share(row["damage"], found["damage"])]
        columns += [f"{row[kind] / battles:.1f}" for kind in SUPPORT]
        columns += [share(contribution(row), total)]
        columns += [
            f"{row['kills'] / battles:.1f}",
            share(row["kills"], found["kills"]),
            f"{row['deaths'] / battles:.1f}",
        ]
        hulls.add_row(name, *columns, share(row["deaths"], battles * classes.count(name)))
    console.print(weapons, hulls)

    decided = max(found["blue_wins"] + found["red_wins"], 1)
    low, high = found["blue_share_95"]
    console.print(f"blue {found['blue_wins']}, red {found['red_wins']}, draws {found['draws']}: blue won")
    console.print(f"{found['blue_wins'] / decided:.1%} of decided battles, 95 % interval {low:.0%} to {high:.0%}")
    ends = f"by zone {found['zone']}, elimination {found['elimination']}, time up {found['time_up']}"
    console.print(f"{ends} ({share(found['time_up'], battles)}); {share(found['standstill'], battles)} stood still")
    means = [f"{found[name] / battles:.1f} {name.replace('_', ' ')}" for name in ALSO]
    console.print(f"{found['mean_s']:.1f} s a battle, with {', '.join(means)}")


def table(title: str, first: str, *numbers: str) -> Table:
    """Return a table of numbers keyed by name."""
    result = Table(first, title=title)
    for name in numbers:
        result.add_column(name, justify="right")
    return result


def main(args: Args) -> None:
    """Run the battles of each commander."""
    device = use_device(resolve_device(args.device))
    config = args.changes.apply(dataclasses.replace(ENV_PRESETS[args.preset](), map_pool=args.battles))
    grounds: list[tuple[str, ...]] = [(biome,) for biome in args.biomes] or [config.world.biomes]
    worlds = [dataclasses.replace(config.world, biomes=biomes) for biomes in grounds]
    for name, world in itertools.product(args.commanders, worlds):
        battle_config = dataclasses.replace(config, world=world)
        counts = count(name, args.against or name, args, battle_config, device)
        if args.json:
            print(json.dumps({"benchmark": "balance", **counts}), flush=True)
        else:
            show(counts, battle_config, Console(soft_wrap=True))


if __name__ == "__main__":
    main(settings(Args, __doc__))
