"""The commands of `arena.py` that play on from a moment of a battle: otherwise, or to tell what decided it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from echelon.arena.branches import INTERVENTIONS, Intervention
from echelon.arena.fork import fork
from echelon.arena.skills import BAR
from echelon.arena.whatif import BRANCHES, EVERY, MOST_BRANCHES, WhatIf, whatif
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import beside
from echelon.pipelines.progress_bar import bar
from echelon.pipelines.result_tables import show
from echelon.replay.battle import CONDITIONS, DEATHS, NOBODY, Condition, Replay
from echelon.replay.file import read, save
from echelon.replay.ground import rebuild
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.errors import quoted as short
from echelon.runtime.files import check_writable, json_bytes, write_whole
from echelon.runtime.limits import Limits, Settings
from echelon.view.page import write_page


@dataclass(frozen=True)
class WhatIfCommand(Settings):
    """Tell how likely blue was to win at each moment of a recorded battle, by playing on from it with fresh chance, and
    what each mech was worth at one of them. Its commanders must still be where they were. Killed and started again with
    the same words it goes on where it was, by a hidden file beside the replay, which it removes in the end."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    battle: int = 1
    """Which of its battles."""
    every: Annotated[int, Limits(1, MOST_BRANCHES)] = EVERY
    """Decisions between two moments."""
    branches: Annotated[int, Limits(2, MOST_BRANCHES, "battles")] = BRANCHES
    """Battles from each moment."""
    at: float | None = None
    """Seconds after which each mech does otherwise in turn; by default none does."""
    interventions: tuple[Intervention, ...] = INTERVENTIONS
    """What the mechs do then."""
    deaths: bool = False
    """Also tell what each death cost: the battle goes on with the mech whole again just before it."""
    out: Path | None = None
    """A JSON file of all numbers."""
    page: Path | None = None
    """Also write the HTML page of the replay, in which this battle has a lane of blue's share, and under Why what mechs
    were worth."""
    json: bool = False
    """Print the same as one JSON object instead of tables."""
    batch: int = 256
    """Battles at once."""
    device: str = "auto"

    def run(self) -> None:
        device = use_device(resolve_device(self.device))
        require(self.file not in (self.out, self.page), "outputs", "other files than the replay", str(self.file))
        check_writable(self.out, self.page)
        replay = chosen_replay(self.file, self.battle)
        log = beside(self.file, f".{self.file.name}-{self.battle}.whatif")
        with bar(100, "% of the branches", quiet=self.json) as progress:
            result = whatif(
                replay,
                self.battle - 1,
                every=self.every,
                branches=self.branches,
                at_s=self.at,
                interventions=self.interventions,
                deaths=self.deaths,
                device=device,
                batch=self.batch,
                log=log,
                on_progress=lambda done, of: progress.reach(100 * done / of),
            )
        if self.out is not None:
            write_whole(self.out, json_bytes(result.as_json()))
        if self.page is not None:
            shown_replay = with_odds(replay, self.battle - 1, result)
            write_page(shown_replay, [rebuild(replay, battle) for battle in replay.battles], self.page)
        if self.json:
            print(json.dumps(result.as_json()))
        else:
            self.show(result, replay)
        log.unlink(missing_ok=True)

    def show(self, result: WhatIf, replay: Replay) -> None:
        """Print the moments, the spans in which most was decided, and what the mechs were worth."""
        console = terminal()
        console.print(
            f"{result.blue} (blue) against {result.red}, seed {result.seed}: share of {result.branches} battles"
        )
        console.print("that blue wins from each moment on, and its 95 % interval")
        for row in result.as_json()["moments"]:
            full = round(BAR * row["blue"])
            interval = f"{row['blue']:4.0%} ({row['low']:4.0%} to {row['high']:4.0%})"
            console.print(f"{row['s']:6.1f} s  {'#' * full:.<{BAR}}  {interval}")
        for begin, end, change in result.swings():
            deaths = "; ".join(happened(replay, self.battle - 1, begin, end)) or "nobody falls"
            console.print(f"{begin:g} to {end:g} s: {100 * change:+.0f} points for blue. {deaths}")
        for row in result.as_json()["deaths"]:
            change, low, high = (100 * row[name] for name in ("difference", "low", "high"))
            death = f"{mech_name(replay, row['mech'])} dies at {row['s']:g} s: had it lived"
            console.print(f"{death}, {change:+.0f} points for blue ({low:+.0f} to {high:+.0f})")
        if result.at_s is not None:
            title = f"What changes for blue, in points, if a mech does or is so from {result.at_s:g} s on"
            show(mech_rows(result, replay), False, title)


@dataclass(frozen=True)
class ForkCommand:
    """Play a recorded battle again and otherwise from a time on, into a replay of both: the battle as it was, and as it
    became. Its commanders must still be where they were."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    at: float
    """Seconds after which something is other."""
    battle: int = 1
    """Which of its battles."""
    blue: str | None = None
    """Who commands blue from there on, as `play` takes names; who did so far, by default."""
    red: str | None = None
    """The same for red."""
    seed: int | None = None
    """Fresh chance from there on; by default it goes on as it did."""
    mech: tuple[Literal["blue", "red"], int] = ("blue", 1)
    """Which mech does otherwise: its team, and its place in it."""
    intervention: Intervention | None = None
    """What it does or is: hold_still, hold_fire, removed, repaired, follow_order, or one trigger left alone, such as
    hold_primary."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """What a mech is at that time, such as "blue 2 hp=150": hp, leg_hp, heat, stability, x, y, z or yaw. Repeatable."""
    out: Path | None = None
    """The replay; by default FILE-fork.echelon beside it."""
    device: str = "auto"

    def run(self) -> None:
        device = use_device(resolve_device(self.device))
        path = self.out or beside(self.file, f"{self.file.stem}-fork{self.file.suffix}")
        require(path != self.file, "--out", "another file than the replay", str(path))
        check_writable(path)
        replay = chosen_replay(self.file, self.battle)
        team, number = self.mech
        first, end = replay.about["teams"][team]
        require(1 <= number <= end - first, "--mech", f"1..{end - first}, a mech of {team}", number)
        options: dict[str, Any] = {
            "blue": self.blue,
            "red": self.red,
            "seed": self.seed,
            "intervention": self.intervention,
            "changes": [change_of(change, replay) for change in self.set],
            "device": device,
        }
        forked = fork(replay, self.battle - 1, at_s=self.at, mech=first + number - 1, **options)
        save(forked, path)
        for label, battle in zip(("was", "is"), forked.battles, strict=True):
            outcome, length = battle.about["outcome"], battle.decisions * replay.about["dt_s"]
            seconds = length * replay.about["decision_repeat"]
            terminal().print(f"{label:<4}{outcome['winner']}, {outcome['reason'].replace('_', ' ')}, {seconds:g} s")
        terminal().print(f"replay      {path}")


SET = re.compile(r"(blue|red) (\d+) (\w+)=(-?[\d.]+(?:e[+-]?\d+)?)")


def change_of(words: str, replay: Replay) -> tuple[int, str, float]:
    """What `--set` says, as `echelon.fork` takes it."""
    match = SET.fullmatch(words)
    if match is None or match[4].count(".") > 1:
        raise ConfigError(f'--set must be such as "blue 2 hp=150", got {short(words)}')
    first, end = replay.about["teams"][match[1]]
    number = int(match[2])
    require(1 <= number <= end - first, "--set", f"of mech 1..{end - first} of {match[1]}", number)
    return first + number - 1, match[3], float(match[4])


def chosen_replay(file: Path, battle: int) -> Replay:
    """A replay that has such a battle, counted from 1."""
    replay = read(file)
    require(1 <= battle <= len(replay.battles), "--battle", f"1..{len(replay.battles)}, those of {file.name}", battle)
    return replay


def with_odds(replay: Replay, index: int, result: WhatIf) -> Replay:
    """The replay, with blue's share at the moments of a battle in what is told of it."""
    record = result.as_json()
    rows = record["moments"]
    odds = {"branches": result.branches, **{name: [row[name] for row in rows] for name in rows[0]}}
    odds |= {name: record[name] for name in ("at_s", "mechs", "deaths")}
    battles = list(replay.battles)
    battles[index] = replace(battles[index], about={**battles[index].about, "odds": odds})
    return Replay(replay.about, battles)


def mech_rows(result: WhatIf, replay: Replay) -> list[dict[str, str]]:
    """A row a mech: what its doing otherwise changes, with the ends of the interval."""
    rows = []
    for n in range(len(replay.about["mechs"])):
        row = {"mech": mech_name(replay, n)}
        for name, tensors in result.mechs.items():
            change, low, high = (100 * float(tensors[key][n]) for key in ("difference", "low", "high"))
            row[name.replace("_", " ")] = f"{change:+.0f} ({low:+.0f} to {high:+.0f})"
        rows.append(row)
    return rows


def happened(replay: Replay, index: int, begin_s: float, end_s: float) -> Iterator[str]:
    """The deaths and lost legs of a span of a battle, in words."""
    battle, dt_s = replay.battles[index], replay.about["dt_s"]
    ticks = round(begin_s / dt_s), round(end_s / dt_s)
    for row in within(battle.deaths, ticks):
        _, victim, killer, weapon = (int(row[DEATHS.index(name)]) for name in DEATHS)
        by_killer = "" if killer == NOBODY else f" by {mech_name(replay, killer)}"
        by_weapon = "" if weapon == NOBODY else f", {replay.about['weapons'][weapon].replace('_', ' ')}"
        yield f"{mech_name(replay, victim)} is destroyed{by_killer}{by_weapon}"
    for row in within(battle.conditions, ticks):
        if row[CONDITIONS.index("condition")] == Condition.LEGGED:
            yield f"{mech_name(replay, int(row[CONDITIONS.index('mech')]))} loses its legs"


def within(table: np.ndarray, ticks: tuple[int, int]) -> np.ndarray:
    """The rows of an event table from one tick until before another."""
    return table[(table[:, 0] >= ticks[0]) & (table[:, 0] < ticks[1])]


def mech_name(replay: Replay, n: int) -> str:
    """A mech in words, such as `blue 2 (medium)`."""
    mech = replay.about["mechs"][n]
    return f"{mech['team']} {n - replay.about['teams'][mech['team']][0] + 1} ({mech['hull']})"
