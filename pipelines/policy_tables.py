"""The commands of `arena.py` that print a table about one policy: how it fights, and whom it trains against."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from echelon.arena.style import BATTLES, style
from echelon.league.commands import opponent_rows
from echelon.league.store import Store
from echelon.pipelines.arena_args import ArenaArgs
from echelon.reports.tables import show_style
from echelon.runtime.terminal import show_table


@dataclass(frozen=True)
class StyleCommand:
    """Print how one policy fights, as numbers (`docs/LEAGUE.md`): range, advance, share of damage by weapon and others,
    in battles on maps that training never saw, every seed once per side."""

    policy: tyro.conf.Positional[str]
    """A commander, as `play` takes names."""
    against: tuple[str, ...] = ()
    """Names of the opponents; those of the task if not given."""
    task: str = ""
    """Name of a task; the newest small-5v5 by default."""
    battles: int = BATTLES
    """Against each opponent, an even number."""
    json: bool = False
    """Print one JSON object instead of tables."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        found = style(self.policy, self.task or None, self.against or None, self.battles, **self.arena.keywords())
        if self.json:
            print(json.dumps(found.as_json()))
            return
        show_style(found)


@dataclass(frozen=True)
class Opponents:
    """Print how often a training run that goes on from an entry draws each opponent of a league: the shares of
    prioritized fictitious self-play (`--opponent league:FOLDER`), by its results so far."""

    name: tyro.conf.Positional[str]
    """Name or id of an entry with a network."""
    league: Path
    json: bool = False
    """Print one JSON list instead of a table."""

    def run(self) -> None:
        store = Store(self.league)
        rules, rows = store.rules, opponent_rows(store, self.name)
        show_table(
            rows, self.json, f"{self.name}: share of its training battles against each opponent, {rules.weighting}"
        )
