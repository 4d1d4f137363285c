"""Plays battles between commanders, draws replays, and runs leagues.

python pipelines/arena.py play --blue X --red Y --battles N --seed S --replay battles.echelon
python pipelines/arena.py watch battles.echelon
python pipelines/arena.py maps --out maps.png
python pipelines/arena.py init|add|tournament|standings|… --league DIR
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from echelon.agents.heuristic import is_scripted
from echelon.arena.batch_arena import COMPUTE
from echelon.arena.match import Match, Result, replay_of, wilson_interval
from echelon.arena.resolve import common_env, resolve
from echelon.league.store import Store
from echelon.pipelines.console import ArenaArgs, parse, run, show, terminal
from echelon.pipelines.league import COMMANDS as LEAGUE_COMMANDS
from echelon.pipelines.pictures import COMMANDS as PICTURE_COMMANDS
from echelon.pipelines.standings import COMMANDS as STANDINGS_COMMANDS
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.profiling import profiled


@dataclass(frozen=True)
class Play:
    """Play a match between two commanders, every seed once per side."""

    blue: str
    """Commander X: heuristic[:tier], a checkpoint folder, or package.module:Commander, a class of your own that is
    built with the battle's config. It is blue in half of the battles."""
    red: str
    """Commander Y, the same."""
    league: Path | None = None
    """A league whose entries may be named as commanders."""
    battles: int = 64
    seed: int = 0
    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto takes the one a checkpoint was trained in, else small."""
    json: bool = False
    """Print one JSON object instead of a table."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    profile: Path | None = None
    """Profile the match: write a trace here and print the costliest parts."""
    replay: Path | None = None
    """Record some of the battles into this file."""
    replay_battles: int = 4
    """How many; each seed is played once per side."""
    replay_observations: bool = False
    """Also record every observation of every mech, about 8 MB a minute of 10v10."""

    def run(self) -> None:
        """Play the match and print the result."""
        arena, device = self.arena, resolve_device(self.arena.device)
        x, y = (resolve(name) for name in self.sources())
        env = common_env([x, y]) if self.env == "auto" else ENV_PRESETS[self.env]()
        policies = [commander.policy(env, device) for commander in (x, y)]
        ids = (x.id, y.id)
        if x.id == y.id and getattr(policies[0], "model", None) != getattr(policies[1], "model", None):
            # Equal weights, but model settings that differ without changing any weight.
            ids = (x.name, y.name)
        how = (arena.batch, COMPUTE[arena.precision], arena.compiled)
        match = Match((ids[0], policies[0]), {ids[1]: policies[1]}, env, self.battles, device, *how)
        recorder = self.recorder()
        with profiled(self.profile):
            result = match.play(self.seed, recorder)[ids[1]]
        if self.replay is not None and recorder is not None:
            save(replay_of(recorder, self.blue, self.red), self.replay)
            terminal(stderr=True).print(f"replay      {self.replay}")
        if self.json:
            print(json.dumps({"x": self.blue, "y": self.red, "seed": self.seed, **result.as_json()}))
        else:
            self.print_result(result)

    def sources(self) -> list[str]:
        """Names of both commanders for `resolve`; league entries are replaced by the folder of their weights."""
        names = [self.blue, self.red]
        if self.league is None:
            return names
        store = Store(self.league)
        # Names of entries hold no colon.
        entries = [name for name in names if ":" not in name and not is_scripted(name) and not Path(name).exists()]
        known = {name: store.find(name).id for name in entries}
        return [str(store.weights.path(known[name])) if name in known else name for name in names]

    def recorder(self) -> Recorder | None:
        """Recorder of the first battles, or None. Checks that all output files are writable.

        Raises:
            ConfigError: if `replay_battles` is out of range, or a file cannot be written.
        """
        if self.profile is not None:
            check_writable(self.profile)
        if self.replay is None:
            return None
        limit = f"1..{self.arena.batch}, those of the first --batch"
        require(1 <= self.replay_battles <= self.arena.batch, "--replay-battles", limit, self.replay_battles)
        check_writable(self.replay)
        return Recorder(range(min(self.replay_battles, self.battles)), self.replay_observations)

    def print_result(self, result: Result) -> None:
        """Print the result as a table."""
        rows = []
        for name, wins, is_x in ((self.blue, result.x_wins, True), (self.red, result.y_wins, False)):
            stats = result.mean_stats(is_x)
            means = {key.replace("_", " "): f"{stats[key]:.1f}" for key in ("kills", "deaths", "damage", "zone_s")}
            rows.append({"name": name, "wins": wins, "share": f"{wins / result.battles:.0%}", **means})
        show(rows, False, f"{result.battles} battles, each seed from both sides")
        low, high = wilson_interval(result.x_wins, result.battles)
        draws, share = result.battles - result.x_wins - result.y_wins, result.x_wins / result.battles
        terminal().print(f"{self.blue} wins {share:.1%}, 95 % interval {low:.1%} to {high:.1%}")
        terminal().print(f"{draws} draws, {result.battles / result.seconds:.1f} battles/s")


COMMANDS = {"play": Play, **PICTURE_COMMANDS, **LEAGUE_COMMANDS, **STANDINGS_COMMANDS}


def main() -> None:
    """Parse the command line and run the command."""
    parse(lambda: tyro.extras.subcommand_cli_from_dict(COMMANDS)).run()


def program() -> None:
    """The console script `echelon-arena`."""
    run(main)


if __name__ == "__main__":
    program()
