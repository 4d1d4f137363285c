"""The `arena.py` command that plays a match between two commanders."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from echelon.arena.evaluate import in_split
from echelon.arena.match import battle_seeds, match_events, named_match, replay_of
from echelon.arena.resolve import resolve
from echelon.league.entry_policy import qualified_name
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.battle_args import PLAYED, SplitBattle
from echelon.replay.file import save
from echelon.replay.recorder import make_recorder
from echelon.reports.tables import show_match, write_log
from echelon.runtime.profiling import profiled_between
from echelon.runtime.terminal import bar, terminal


@dataclass(frozen=True)
class Play(SplitBattle):
    """Play a match between two commanders; each seed is played once per side."""

    blue: str
    """Commander X: a tier, heuristic[:tier], a checkpoint or run folder, league:FOLDER/NAME, or
    package.module:Commander, your own class, built with the battle's config. X is blue in half of the battles."""
    red: str
    """Commander Y, in the same form."""
    league: Path | None = None
    """League whose entries can be named without the league's folder."""
    battles: Annotated[int, PLAYED] = 64
    json: bool = False
    """Print one JSON object instead of a table."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    log: Path | None = None
    """Write one JSON line per battle: commanders, seed, winner, reason and time of the end, hash of the final state."""
    profile: Path | None = None
    """Profile decisions 17 to 48 of the match: write a trace to this file and print the most expensive parts."""
    replay: Path | None = None
    """Record some of the battles into this file."""
    replay_battles: int = 4
    """Number of battles to record; each seed is played once per side."""
    replay_observations: bool = False
    """Also record every observation of every mech, about 8 MB per minute of 10v10."""

    def run(self) -> None:
        settings, league = self.arena.settings(), self.league
        x, y = (name if league is None else qualified_name(name, league) for name in (self.blue, self.red))
        env = in_split(self.config([resolve(x), resolve(y)]), self.split)
        match = named_match(x, y, env, self.battles, settings)
        others, limits = {"--profile": self.profile, "--log": self.log}, (self.arena.batch, self.battles)
        recorder = make_recorder(self.replay, self.replay_battles, *limits, self.replay_observations, others)
        with profiled_between(self.profile) as mark, bar(self.battles, "battles", quiet=self.json) as progress:

            def advance(battles: float) -> None:
                progress.advance(battles)
                mark()

            match.arena.on_progress = advance
            (result,), setup = match.play(self.seed, recorder).values(), match.arena.setup
        if self.replay is not None and recorder is not None:
            save(replay_of(recorder, self.blue, self.red), self.replay)
            terminal(stderr=True).print(f"replay      {self.replay}")
        if self.log is not None:
            seeds = battle_seeds(self.seed, self.battles)
            write_log(self.log, setup, [match_events(result, self.blue, self.red, seeds)])
        if self.json:
            print(json.dumps({"x": self.blue, "y": self.red, "seed": self.seed, **setup, **result.as_json()}))
        else:
            show_match(result, self.blue, self.red, setup, by_side=env.is_unequal)
