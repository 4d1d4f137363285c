"""Prints the what-if analysis of a battle, and parses the flags `--set` and `--mech`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from echelon.arena.skills import BAR
from echelon.arena.whatif import WhatIf
from echelon.replay.battle import CONDITIONS, DEATHS, NO_INDEX, Condition, Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.errors import quoted as short
from echelon.runtime.files import json_bytes, write_whole
from echelon.runtime.terminal import show_table, terminal
from echelon.viewer.page import write_page


def write_answers(result: WhatIf, replay: Replay, index: int, out: Path | None, page: Path | None) -> None:
    """Write all numbers of the analysis as JSON, and the replay's page with blue's win rate in battle `index`."""
    if out is not None:
        write_whole(out, json_bytes(result.as_json()))
    if page is not None:
        write_page(with_odds(replay, index, result), [rebuild(replay, battle) for battle in replay.battles], page)


def show_answers(result: WhatIf, replay: Replay, index: int) -> None:
    """Print blue's win rate at each moment, the time spans with the largest changes, and the effect of each mech."""
    console = terminal()
    console.print(f"{result.blue} (blue) against {result.red}, seed {result.seed}: share of {result.branches} battles")
    console.print("that blue wins from each moment on, and its 95 % interval")
    for row in result.as_json()["moments"]:
        full = round(BAR * row["blue"])
        interval = f"{row['blue']:4.0%} ({row['low']:4.0%} to {row['high']:4.0%})"
        console.print(f"{row['s']:6.1f} s  {'#' * full:.<{BAR}}  {interval}")
    swings = [swing for swing in result.swings() if swing[2] != 0]
    if not swings:
        console.print("blue's win rate is the same at all moments")
    for begin, end, change in swings:
        deaths = "; ".join(happened(replay, index, begin, end)) or "no mech is lost"
        console.print(f"{begin:g} to {end:g} s: {100 * change:+.0f} points for blue. {deaths}")
    for row in result.as_json()["deaths"]:
        change, low, high = (100 * row[name] for name in ("difference", "low", "high"))
        death = f"{mech_name(replay, row['mech'])} dies at {row['s']:g} s; had it lived"
        console.print(f"{death}, {change:+.0f} points for blue ({low:+.0f} to {high:+.0f})")
    if result.at_s is not None:
        title = f"Change of blue's win rate, in points, by an intervention on one mech from {result.at_s:g} s on"
        living = replay.battles[index].hp[round(result.at_s / result.decision_s)] > 0
        show_table(mech_rows(result, replay, living), False, title)


SET = re.compile(r"(blue|red) (\d+) (\w+)=(-?[\d.]+(?:e[+-]?\d+)?)")


def change_of(words: str, replay: Replay) -> tuple[int, str, float]:
    """Parse the value of a `--set` flag into a change for `echelon.fork`."""
    match = SET.fullmatch(words)
    if match is None or match[4].count(".") > 1:
        raise ConfigError(f'--set must have the form "blue 2 hp=150", got {short(words)}')
    return place_of(match[1], int(match[2]), replay, "--set", "of mech {} of {}"), match[3], float(match[4])


def place_of(team: str, number: int, replay: Replay, flag: str, limit: str) -> int:
    """Return the index of a mech that a flag names by team and number in the team, counted from 1."""
    first, end = replay.about["teams"][team]
    require(1 <= number <= end - first, flag, limit.format(f"1..{end - first}", team), number)
    return first + number - 1


def chosen_replay(file: Path, battle: int) -> Replay:
    """Read a replay and check that it contains battle number `battle`, counted from 1."""
    replay = read(file)
    require(
        1 <= battle <= len(replay.battles),
        "--battle",
        f"1..{len(replay.battles)}, the number of a battle in {file.name}",
        battle,
    )
    return replay


def with_odds(replay: Replay, index: int, result: WhatIf) -> Replay:
    """Return the replay with blue's win rates added to the metadata of one battle."""
    record = result.as_json()
    rows = record["moments"]
    odds = {"branches": result.branches, **{name: [row[name] for row in rows] for name in rows[0]}}
    odds |= {name: record[name] for name in ("at_s", "mechs", "deaths")}
    battles = list(replay.battles)
    battles[index] = replace(battles[index], about={**battles[index].about, "odds": odds})
    return Replay(replay.about, battles)


def mech_rows(result: WhatIf, replay: Replay, living: np.ndarray) -> list[dict[str, str]]:
    """Return a row for each living mech (`living [N]` bool): how much each intervention changes blue's win rate.

    Each change has its 95 % interval.
    """
    rows = []
    for n in np.flatnonzero(living).tolist():
        row = {"mech": mech_name(replay, n)}
        for name, tensors in result.mechs.items():
            change, low, high = (100 * float(tensors[key][n]) for key in ("difference", "low", "high"))
            row[name.replace("_", " ")] = f"{change:+.0f} ({low:+.0f} to {high:+.0f})"
        rows.append(row)
    return rows


def happened(replay: Replay, index: int, begin_s: float, end_s: float) -> Iterator[str]:
    """Yield the deaths and lost legs in a time span of a battle, in words."""
    battle, dt_s = replay.battles[index], replay.about["dt_s"]
    ticks = round(begin_s / dt_s), round(end_s / dt_s)
    for row in within(battle.deaths, ticks):
        _, victim, killer, weapon = (int(row[DEATHS.index(name)]) for name in DEATHS)
        by_killer = "" if killer == NO_INDEX else f" by {mech_name(replay, killer)}"
        by_weapon = "" if weapon == NO_INDEX else f", {replay.about['weapons'][weapon].replace('_', ' ')}"
        yield f"{mech_name(replay, victim)} is destroyed{by_killer}{by_weapon}"
    for row in within(battle.conditions, ticks):
        if row[CONDITIONS.index("condition")] == Condition.LEGGED:
            yield f"{mech_name(replay, int(row[CONDITIONS.index('mech')]))} loses its legs"


def within(table: np.ndarray, ticks: tuple[int, int]) -> np.ndarray:
    """Return the rows of an event table from the first of two `ticks` until before the second."""
    return table[(table[:, 0] >= ticks[0]) & (table[:, 0] < ticks[1])]


def mech_name(replay: Replay, n: int) -> str:
    """Return the name of a mech with its hull, such as `blue 2 (medium)`."""
    mech = replay.about["mechs"][n]
    return f"{mech['team']} {n - replay.about['teams'][mech['team']][0] + 1} ({mech['hull']})"
