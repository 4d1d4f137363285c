"""The `arena.py` commands for the records of a league: the history of an entry, and the whole league as a file."""

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
    """Write a league to one JSON file, and its weights to a folder next to the file."""

    league: Path
    out: Path

    def run(self) -> None:
        check_writable(self.out)
        write_league(Store(self.league), self.out)
        terminal().print(f"{self.out}  {self.out.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class Import:
    """Create a league from an exported file.

    For a file `unrecorded_….json`, add its battles to the league instead; a tournament writes this file if it cannot
    write to its league. The whole file is validated before anything is written.
    """

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
    """Print an entry's rating after each rating period, and the recorded changes of the entry."""

    name: tyro.conf.Positional[str]
    league: Path
    json: bool = False

    def run(self) -> None:
        show_history(Store(self.league), self.name, self.json)


@dataclass(frozen=True)
class Opponents:
    """Print how often a training run that continues from an entry would play each opponent of a league.

    These shares of prioritized fictitious self-play (`--opponent league:FOLDER`) depend on the results so far.
    """

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
