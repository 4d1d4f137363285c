"""The `arena.py` commands that create a league, and change and list its entries."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from echelon.league.commands import entry_rows
from echelon.league.config import LeagueConfig
from echelon.league.store import Store
from echelon.pipelines.battle_args import ChosenBattle
from echelon.runtime.errors import require
from echelon.runtime.terminal import show_table, terminal


@dataclass(frozen=True)
class Init(ChosenBattle):
    """Create a league with the scripted tiers as entries."""

    league: Path
    """Folder of the league."""
    rules: LeagueConfig = field(default_factory=LeagueConfig)

    def run(self) -> None:
        env = self.config([])
        store = Store.create(self.league, env, self.rules)
        terminal().print(f"{self.league}: {len(store.entries())} entries, battles of {env.title}")


@dataclass(frozen=True)
class Add:
    """Add checkpoints to a league as candidates, which may become commanders."""

    checkpoints: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    parent: str = ""
    """Name or id of the parent of the first checkpoint. By default each checkpoint's parent is the newest entry among
    the ancestors listed in its file."""

    def run(self) -> None:
        require(len(self.checkpoints) > 0, "add", "given at least one checkpoint", self.checkpoints)
        store = Store(self.league)
        parent = store.find(self.parent).id if self.parent else None
        for checkpoint in self.checkpoints:
            entry, parent = store.add(checkpoint, parent=parent), None
            terminal().print(f"{entry.name}  {entry.id[:12]}  {checkpoint}")


@dataclass(frozen=True)
class Retire:
    """Retire entries: they play no further battles, and their history is kept."""

    names: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    reason: str = "by hand"

    def run(self) -> None:
        require(len(self.names) > 0, "retire", "followed by the name of at least one entry", self.names)
        store = Store(self.league)
        with store.writing():
            for entry in [store.find(name) for name in self.names]:
                store.set_kind(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class List:
    """Print the entries."""

    league: Path
    json: bool = False

    def run(self) -> None:
        rows = entry_rows(Store(self.league))
        show_table(rows, self.json, f"{len(rows)} entries", shorten=("id",))
