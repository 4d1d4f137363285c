"""The `arena.py` command that plays commanders against each other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from echelon.arena.commander_table import commander_table
from echelon.arena.config import setup_words
from echelon.arena.evaluate import in_split
from echelon.arena.resolve import resolve
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.battle_args import SplitBattle
from echelon.runtime.limits import Limits
from echelon.runtime.terminal import bar, show_table, terminal


@dataclass(frozen=True)
class Commanders(SplitBattle):
    """Play a round robin of commanders, such as language models, and print a table (docs/LANGUAGE_MODELS.md).

    The table has win rates with 95 % intervals over seeds, late and refused orders, and tokens and seconds per battle.
    """

    names: tyro.conf.Positional[tuple[str, ...]]
    """Two or more: llm:FILE, recorded:FILE, orders:SCRIPT (none, hold, gather, random), and all that play takes."""
    seeds: Annotated[int, Limits(1, 10**6, "seeds")] = 16
    """Of each pair. Every seed is played once per side."""
    json: bool = False
    """Print one JSON object, with every outcome."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        settings = self.arena.settings()
        env = in_split(self.config([resolve(name) for name in self.names]), self.split)
        total = len(self.names) * (len(self.names) - 1) * self.seeds
        with bar(total, "battles", quiet=self.json) as progress:
            table = commander_table(self.names, env, self.seeds, self.seed, settings, progress.advance)
        if self.json:
            print(json.dumps(table.as_json()))
            return
        show_table(table.rows(), False, f"seeds a pair: {self.seeds}, both sides")
        terminal().print(setup_words(table.setup), markup=False, highlight=False)
