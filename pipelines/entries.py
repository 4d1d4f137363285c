"""The commands of `arena.py` that make a league, add and retire its entries, and send it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from echelon.league.config import LeagueConfig
from echelon.league.import_export import read_league, write_league
from echelon.league.store import Store
from echelon.league.unrecorded import is_unrecorded, record_file
from echelon.pipelines.arena_args import BattleArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import reading
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable


@dataclass(frozen=True)
class Init:
    """Create a league with the scripted tiers as entries."""

    league: Path
    """Folder of the league."""
    env: Literal["small", "standard", "large"] = "small"
    """Battle preset of the league."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)
    rules: LeagueConfig = field(default_factory=LeagueConfig)

    def run(self) -> None:
        """Create the league."""
        env = self.changes.apply(ENV_PRESETS[self.env]())
        store = Store.create(self.league, env, self.rules)
        terminal().print(f"{self.league}: {len(store.entries())} entries, battles of {env.title}")


@dataclass(frozen=True)
class Add:
    """Add checkpoints as candidates."""

    checkpoints: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    parent: str = ""
    """Name or id of the parent of the first checkpoint; each further one descends from the one before."""

    def run(self) -> None:
        """Add the checkpoints in order."""
        require(len(self.checkpoints) > 0, "add", "given one checkpoint at least", self.checkpoints)
        store = Store(self.league)
        parent = store.find(self.parent).id if self.parent else None
        for checkpoint in self.checkpoints:
            entry = store.add(checkpoint, parent=parent)
            parent = entry.id
            terminal().print(f"{entry.name}  {entry.id[:12]}  {checkpoint}")


@dataclass(frozen=True)
class Retire:
    """Retire entries: they play no more battles, and keep their history."""

    names: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    reason: str = "by hand"

    def run(self) -> None:
        """Retire the entries."""
        require(len(self.names) > 0, "retire", "given the name of one entry at least", self.names)
        store = Store(self.league)
        with store.writing():
            for entry in [store.find(name) for name in self.names]:
                store.set_kind(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class Export:
    """Write a league to one JSON file, and its weights next to it."""

    league: Path
    out: Path

    def run(self) -> None:
        """Write it."""
        check_writable(self.out)
        write_league(Store(self.league), self.out)
        terminal().print(f"{self.out}  {self.out.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class Import:
    """Create a league from an exported file, or record in a league the battles of a file `unrecorded_….json`, which a
    tournament left that could not write to it. Everything is validated first."""

    file: tyro.conf.Positional[Path]
    league: Path

    def run(self) -> None:
        """Read it."""
        if is_unrecorded(self.file):
            count, new = record_file(self.file, Store(self.league))
            terminal().print(f"{self.league}: {new} new of {count} matches; {self.file} is not needed any more")
            return
        with reading(self.file) as watched:
            store = read_league(self.file, self.league, watched)
        terminal().print(f"{self.league}: {len(store.entries())} entries, {len(store.matches())} matches")
