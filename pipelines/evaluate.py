"""The command of `arena.py` that evaluates a policy: at a named task, or against the entries of a league."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from echelon.arena.config import setup_words
from echelon.arena.evaluate import Evaluation, evaluate, met_line
from echelon.arena.match import match_events
from echelon.arena.skills import SEEDS, skill_profile
from echelon.env.tasks.task import BATTLES, scenario_task
from echelon.league import commands
from echelon.league.matchmaking import MOST_RATED
from echelon.league.store import Store
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import require_picture
from echelon.pipelines.progress_bar import bar, with_progress
from echelon.pipelines.result_tables import show
from echelon.pipelines.strangers import StrangersArgs
from echelon.reports.plots import skills_figure
from echelon.rules.config import Split
from echelon.runtime.errors import require, rounded
from echelon.runtime.files import check_writable, write_lines
from echelon.runtime.limits import Limits, Settings, check_settings
from echelon.runtime.ray_tasks import RayArgs
from echelon.scenarios.piece import PIECES, pieces
from echelon.scenarios.scene import config_of_words
from echelon.view.paper import save

LEAGUE_SEEDS = 4
"""Seeds of a league's evaluation by default."""
COLUMNS = ("battles", "wins", "draws", "win_rate", "low", "high", "kills", "deaths", "damage", "zone_s")


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a policy: at a task of `echelon.tasks()` by its protocol, or against the active entries of a league,
    rated for nobody. Every seed is played once per side, actions are sampled.

    With --ray the workers of a cluster play the battles.
    """

    policy: tyro.conf.Positional[str]
    """A checkpoint folder or trained:NAME; at a task also a tier, heuristic[:tier], league:FOLDER/NAME or
    package.module:Commander."""
    task: str = ""
    """Name of a task."""
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """In place of a task, a scenario in which battles begin: a name of echelon.scenario_names() or a JSON file;
    repeatable, and each battle draws one of them, as often as a :WEIGHT behind it says."""
    league: Path | None = None
    """Folder of a league."""
    opponents: tuple[str, ...] = ()
    """Those of the task, or all active entries of the league, if not given."""
    seeds: int = 0
    """Seeds per opponent; 0 for those of the task, and 4 in a league."""
    json: bool = False
    """Print everything as one JSON object, with outcome and state hash of every battle."""
    log: Path | None = None
    """Write a JSON object a line for each battle: who, seed, winner, why and when it ended, hash of its last state."""
    protocol: Literal[1, 2] = 1
    """At a task strangers/...: 2 for that of docs/PROTOCOL.md, against strangers and beside strangers."""
    strangers: tyro.conf.OmitArgPrefixes[StrangersArgs] = field(default_factory=StrangersArgs)
    split: Split | None = None
    """At a task: maps and battles of train, validation or test, in place of the task's own (`docs/TRAINING.md`)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)

    def __post_init__(self) -> None:
        max_seeds = int(BATTLES.high) // 2 if self.league is None else MOST_RATED
        check_settings(self, {"seeds": Limits(0, max_seeds, "seeds, 0 for the usual number")})
        sources = [name for name in (self.task, self.league, self.scenario) if name not in ("", None, ())]
        limit = "one of them: a task's name, a scenario, or a league's folder"
        require(len(sources) == 1, "--task, --scenario, --league", limit, sources)
        require(self.split is None or self.league is None, "--split", "left out in a league", self.split)
        if self.protocol == 1:
            require(self.strangers == StrangersArgs(), "--protocol", "2 with --runs, --out and --report", 1)
            return
        is_plain = (self.opponents, self.seeds) == ((), 0) and self.task != ""
        require(is_plain, "--protocol 2", "given with --task, without --opponents and --seeds", self.task or "none")

    def run(self) -> None:
        require(self.log is None or self.protocol == 1, "--log", "given with --protocol 1", self.protocol)
        check_writable(self.log)
        if self.protocol == 2:
            self.strangers.evaluate(self.policy, self.task, self.split, self.arena, self.json)
            return
        progress = partial(with_progress, quiet=self.json)
        with self.cluster.connected() as tasks:
            if self.league is None:
                evaluation = evaluate(
                    self.policy,
                    scenario_task(config_of_words(self.scenario)) if self.scenario else self.task,
                    self.opponents or None,
                    2 * self.seeds if self.seeds > 0 else None,
                    split=self.split,
                    cluster=tasks,
                    watch=progress,
                    **self.arena.keywords(tasks),
                )
            else:
                store, seeds = Store(self.league), self.seeds or LEAGUE_SEEDS
                arena = self.arena.build(store, tasks, 2 * seeds * (len(self.opponents) or len(store.active())))
                evaluation = commands.evaluate(arena, self.policy, seeds, progress, self.opponents)
        if self.log is not None:
            setup = {name: evaluation.versions[name] for name in ("device", "precision", "compiled", "captured")}
            results = evaluation.results.items()
            matches = [match_events(one, evaluation.policy, name, evaluation.seeds) for name, one in results]
            write_lines(self.log, [row | setup for rows in matches for row in rows])
        self._print(evaluation)

    def _print(self, evaluation: Evaluation) -> None:
        if self.json:
            print(json.dumps(evaluation.as_json()))
            return
        label = f"task {self.task}" if self.task else f"scenario {', '.join(self.scenario)}"
        source = f"{label} ({evaluation.fingerprint})" if self.league is None else f"league {self.league}"
        show(
            table_rows(evaluation),
            False,
            f"{self.policy}, {source}: share won with its 95 % interval over pairs of battles",
        )
        terminal().print(setup_words(dict(evaluation.versions)), markup=False, highlight=False)
        terminal().print(met_line(evaluation.met), markup=False, highlight=False)
        if self.task and not evaluation.by_protocol:
            terminal().print("opponents, seeds or split are not those of the task: this is no figure of the task")


def table_rows(evaluation: Evaluation) -> Sequence[dict[str, Any]]:
    sides = tuple(f"win_rate_{side}" for side in ("blue", "red")) if evaluation.by_side else ()
    return [
        {"against": row["opponent"], **{name: rounded(row[name], 3) for name in (*COLUMNS, *sides)}}
        for row in evaluation.rows()
    ]


@dataclass(frozen=True)
class Pieces(Settings):
    """Let a policy play the set pieces, short battles that ask for one skill each (`docs/SCENARIOS.md`)."""

    policy: tyro.conf.Positional[str]
    """A commander, as `play` takes them; `line` plays each piece's own script."""
    only: tuple[str, ...] = ()
    """Names of the pieces; all by default."""
    seeds: Annotated[int, Limits(1, 10**6, "seeds")] = SEEDS
    """Battles of each."""
    json: bool = False
    """Print one JSON object instead of a table."""
    plot: Path | None = None
    """A picture of the bars, PDF, SVG or PNG."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        require_picture("--plot", self.plot)
        check_writable(self.plot)
        names = self.only or tuple(pieces())
        options = self.arena.keywords()
        with bar(len(names), "pieces", quiet=self.json) as progress:
            profile = skill_profile(self.policy, names, self.seeds, on_piece=lambda name: progress.advance(), **options)
        if self.plot is not None:
            save(skills_figure(profile.as_json()), self.plot)
        if self.json:
            print(json.dumps(profile.as_json()))
            return
        console = terminal()
        console.print(f"{PIECES}, {self.policy}: share of {self.seeds} seeds won, with its 95 % interval")
        for line in str(profile).splitlines():
            console.print(line)
        console.print(f"mean over {len(profile.results)} pieces: {profile.win_rate:.0%}")
