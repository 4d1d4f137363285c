"""The `arena.py` command that plays a tournament of a league."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro

from echelon.arena.config import setup_words
from echelon.league import commands
from echelon.league.store import Store
from echelon.league.tables import show_standings
from echelon.pipelines.arena_args import ArenaArgs
from echelon.runtime.ray_tasks import RayArgs
from echelon.runtime.terminal import terminal, with_progress


@dataclass(frozen=True)
class Tournament:
    """Play a round robin of all active entries, each seed once per side, and close the rating period.

    An interrupted tournament continues where it stopped. With --ray, the workers of a Ray cluster play the battles, and
    this process records the results.
    """

    league: Path
    seeds: int = 16
    """Number of seeds per pair."""
    json: bool = False
    replay: Path | None = None
    """Record some of the first battles into this file."""
    replay_battles: int = 4
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)

    def run(self) -> None:
        store, progress = Store(self.league), partial(with_progress, quiet=self.json)
        with self.cluster.connected() as tasks:
            entries = len(store.active())
            arena = self.arena.build(store, tasks, entries * (entries - 1) * self.seeds)
            try:
                period = commands.tournament(arena, self.seeds, progress, self.replay, self.replay_battles)
            except KeyboardInterrupt as interrupt:
                # An interrupt between two batches has no message, so add a hint.
                raise KeyboardInterrupt(str(interrupt) or "repeat the command to continue") from None
        show_standings(store, self.json, f"after period {period}")
        if not self.json:
            terminal().print(setup_words(arena.arena.setup), markup=False, highlight=False)
