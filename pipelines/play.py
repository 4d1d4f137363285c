"""The command of `arena.py` that plays a match between two commanders."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from echelon.arena.match import MOST_PLAYED, named_match, replay_of
from echelon.arena.resolve import common_env, resolve
from echelon.league.entry_policy import qualified_name
from echelon.pipelines.arena_args import ArenaArgs, BattleArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import bar
from echelon.pipelines.result_tables import show_match
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, check_settings
from echelon.runtime.profiling import profiled_between


@dataclass(frozen=True)
class Play:
    """Play a match between two commanders, every seed once per side."""

    blue: str
    """Commander X: a tier, heuristic[:tier], a checkpoint or run folder, league:FOLDER/NAME, or
    package.module:Commander, a class of your own that is built with the battle's config. It is blue in half of the
    battles."""
    red: str
    """Commander Y, the same."""
    league: Path | None = None
    """A league whose entries may be named as commanders without their folder."""
    battles: int = 64
    seed: int = 0
    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto takes the one a checkpoint was trained in, else small."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)
    json: bool = False
    """Print one JSON object instead of a table."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    profile: Path | None = None
    """Profile decisions 17 to 48 of the match: write a trace here and print the costliest parts."""
    replay: Path | None = None
    """Record some of the battles into this file."""
    replay_battles: int = 4
    """How many; each seed is played once per side."""
    replay_observations: bool = False
    """Also record every observation of every mech, about 8 MB a minute of 10v10."""

    def __post_init__(self) -> None:
        check_settings(self, {"battles": Limits(2, MOST_PLAYED, "battles, an even number"), "seed": SEED})

    def run(self) -> None:
        """Play the match and print the result."""
        device, league = use_device(resolve_device(self.arena.device)), self.league
        x, y = (name if league is None else qualified_name(name, league) for name in (self.blue, self.red))
        env = common_env([resolve(x), resolve(y)]) if self.env == "auto" else ENV_PRESETS[self.env]()
        env = self.changes.apply(env)
        how = self.arena.execution(device)
        match = named_match(x, y, env, self.battles, device, self.arena.batch, *how)
        recorder = self.recorder()
        with profiled_between(self.profile) as mark, bar(self.battles, "battles", quiet=self.json) as shown:

            def advance(battles: float) -> None:
                shown.advance(battles)
                mark()

            match.arena.on_progress = advance
            (result,) = match.play(self.seed, recorder).values()
        if self.replay is not None and recorder is not None:
            save(replay_of(recorder, self.blue, self.red), self.replay)
            terminal(stderr=True).print(f"replay      {self.replay}")
        if self.json:
            print(json.dumps({"x": self.blue, "y": self.red, "seed": self.seed, **result.as_json()}))
        else:
            show_match(result, self.blue, self.red, by_side=env.is_unequal)

    def recorder(self) -> Recorder | None:
        """Recorder of the first battles, or None. Checks that all output files are writable."""
        if self.profile is not None:
            check_writable(self.profile)
        if self.replay is None:
            return None
        is_own = self.profile is None or self.profile.resolve() != self.replay.resolve()
        require(is_own, "--profile", "another file than the replay", str(self.profile))
        limit = f"1..{self.arena.batch}, those of the first --batch"
        require(1 <= self.replay_battles <= self.arena.batch, "--replay-battles", limit, self.replay_battles)
        check_writable(self.replay)
        return Recorder(range(min(self.replay_battles, self.battles)), self.replay_observations)
