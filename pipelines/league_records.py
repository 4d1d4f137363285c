"""The `arena.py` commands for the records of a league: of an entry, and of the whole league as a file."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from echelon.league.commands import opponent_rows
from echelon.league.import_export import read_league, write_league
from echelon.league.league_arena import is_unrecorded, record_file
from echelon.league.store import Store
from echelon.league.tables import show_history
from echelon.runtime.files import check_writable
from echelon.runtime.terminal import reading, show_table, terminal


@dataclass(frozen=True)
class Export:
    """Write a league to one JSON file, and its weights next to it."""

    league: Path
    out: Path

    def run(self) -> None:
        check_writable(self.out)
        write_league(Store(self.league), self.out)
        terminal().print(f"{self.out}  {self.out.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class Import:
    """Create a league from an exported file; or add the battles of a file `unrecorded_….json`, written by a tournament
    that could not write to its league. All contents are validated first."""

    file: tyro.conf.Positional[Path]
    league: Path

    def run(self) -> None:
        if is_unrecorded(self.file):
            count, new = record_file(self.file, Store(self.league))
            terminal().print(f"{self.league}: {new} new of {count} matches; {self.file} is no longer needed")
            return
        with reading(self.file) as wrap:
            store = read_league(self.file, self.league, wrap)
        terminal().print(f"{self.league}: {len(store.entries())} entries, {len(store.matches())} matches")


@dataclass(frozen=True)
class History:
    """Print the ratings of an entry by period, and its recorded changes."""

    name: tyro.conf.Positional[str]
    league: Path
    json: bool = False

    def run(self) -> None:
        show_history(Store(self.league), self.name, self.json)


@dataclass(frozen=True)
class Opponents:
    """Print how often a training run that continues an entry draws each opponent of a league, given the results so far:
    the shares of prioritized fictitious self-play (`--opponent league:FOLDER`)."""

    name: tyro.conf.Positional[str]
    """Name or id of an entry with a network."""
    league: Path
    json: bool = False
    """Print one JSON list instead of a table."""

    def run(self) -> None:
        store = Store(self.league)
        rules, rows = store.rules, opponent_rows(store, self.name)
        title = f"{self.name}: share of its training battles against each opponent (weighting {rules.weighting});"
        show_table(rows, self.json, f"{title} first_share: in a new run, before its first entry")
