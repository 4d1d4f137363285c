"""Rate the shipped policies of a task in a tournament with the scripted tiers, and write their table.

python benchmarks/rate.py --task small-5v5-v1 --league leagues/shipped-5v5 --seeds 32

A stopped tournament resumes. In a finished one, a new policy plays all others equally often.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from ship import write_table

from echelon.agents.populations import held_out
from echelon.env.tasks.task import find_task
from echelon.league.commands import compute_payoff, standing_rows, tournament
from echelon.league.rating_period import rate_entry
from echelon.league.store import FILE, Store
from echelon.learn.checkpoint.shipped import trained
from echelon.pipelines.arena_args import ArenaArgs
from echelon.runtime.command_line import settings
from echelon.runtime.errors import require
from echelon.runtime.terminal import run, with_progress


@dataclass(frozen=True)
class Args:
    """Settings of this program."""

    task: str
    """Full name of the task that the policies were trained for."""
    league: Path
    """Folder of the league of the tournament."""
    seeds: int = 16
    """Number of seeds of each pair, each played on both sides."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)


def rate(args: Args) -> dict[str, float]:
    """Play all pairs, tiers included, and write the ratings of a Bradley-Terry model: for ratings that differ by d, the
    better one is expected to score 1 / (1 + 10^(-d / 400)) of the points. The mean rating is 1500.

    Policies of the evaluation population (`stranger-...`) do not play and get no rating.

    Returns:
        Ratings of the policies and tiers, keyed by commander name.
    """
    policies = {name: row for name, row in trained().items() if row.task == args.task}
    names = {row.sha256: f"trained:{name}" for name, row in policies.items() if not held_out(f"trained:{name}")}
    require(len(names) > 0, "--task", "a task that policies ship for", args.task)
    if not (args.league / FILE).exists():
        Store.create(args.league, find_task(args.task).config).close()
    with closing(Store(args.league)) as store:
        ids = {store.add(name).id for name in names.values()}
        others = sorted(entry.name for entry in store.active() if not entry.is_scripted and entry.id not in ids)
        require(not others, "--league", "one of the tiers and of policies that ship alone", ", ".join(others))
        arena = args.arena.build(store)
        if store.period == 1:
            tournament(arena, args.seeds, partial(with_progress, quiet=False))
        for entry in [entry for entry in store.active() if not store.history(entry)]:
            rate_entry(arena, entry, args.seeds)
        labels = {entry.name: names.get(entry.id, entry.name.partition("@")[0]) for entry in store.entries()}
        standings = standing_rows(store)
        print_results(store, standings, labels)
        ratings = {labels[row["name"]]: row["refit"] for row in standings}
    write_table([replace(row, rating=ratings.get(f"trained:{name}", row.rating)) for name, row in trained().items()])
    return ratings


def print_results(store: Store, standings: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> None:
    """Print a JSON line for each entry, best first, with its points against each other one, then one for all."""
    payoff = compute_payoff(store)
    order = [payoff.names.index(row["name"]) for row in sorted(standings, key=lambda row: -row["refit"])]
    by_name = {row["name"]: row for row in standings}
    for index in order:
        row = by_name[payoff.names[index]]
        points = {labels[payoff.names[other]]: payoff.share[index][other] for other in order if other != index}
        numbers = {"rating": row["refit"], "RD": row["RD"], "games": row["games"], "nash": row["nash"]}
        print(json.dumps({"name": labels[row["name"]], **numbers, "points": points}))
    print(json.dumps({"cyclic": round(payoff.cyclic, 4), "cyclic_by_chance": round(payoff.cyclic_by_chance, 4)}))


if __name__ == "__main__":
    run(lambda: rate(settings(Args, __doc__)))
