"""The positions, times and shots of one battle in world units, read by the exporters of all formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from echelon.replay.battle import POINTS, POS_PER_VOX, TABLES, YAW_PER_RAD, Battle, Fact, Replay

TEAM_COLOURS = {"blue": (38, 118, 226), "red": (226, 82, 26)}
"""RGB, 0..255."""


@dataclass(frozen=True)
class Flight:
    """One shot with a visible flight, from its launch to its end."""

    number: int
    """Its row in the table of flights."""
    row: dict[str, int]
    """Its columns, `echelon.replay.battle.FLIGHTS`."""
    weapon: str
    start: int
    """Substeps from the beginning of the battle to the launch."""
    end: int
    """Substeps from the beginning of the battle to the end of the flight."""
    points: np.ndarray
    """`[P, 3]` waypoints, vox, spaced evenly in time from `start` to `end`."""

    def at(self, substep: int) -> np.ndarray:
        """Return the position `[3]` of the shot at a substep, vox.

        Before the launch it is the first waypoint, after the end the last one.
        """
        share = min(max((substep - self.start) / max(self.end - self.start, 1), 0.0), 1.0)
        place = share * (len(self.points) - 1)
        before = min(int(place), max(len(self.points) - 2, 0))
        after = min(before + 1, len(self.points) - 1)
        position: np.ndarray = self.points[before] + (self.points[after] - self.points[before]) * (place - before)
        return position


class BattleTimeline:
    """One battle of a replay, with positions in vox, angles in rad, damage and heat in points, and times in seconds.

    Times are counted as substeps since the beginning of the battle. `seconds` converts substeps to seconds without
    rounding errors.

    Args:
        index: index of the battle in the replay, from 0.
        ground: materials `[Z, Y, X]` uint8 at the beginning of the battle.
    """

    def __init__(self, replay: Replay, index: int, ground: np.ndarray) -> None:
        self.replay, self.index, self.ground = replay, index, ground
        self.about: dict[str, Any] = replay.about
        self.battle: Battle = replay.battles[index]
        self.mechs: list[dict[str, Any]] = self.about["mechs"]
        self.moments = np.arange(self.battle.decisions + 1) * self.about["decision_repeat"]
        """`[T + 1]` substeps before each moment."""
        self.positions = self.battle.pos / POS_PER_VOX
        """`[T + 1, N, 3]` hull centres, vox."""
        self.yaws = np.unwrap(self.battle.yaw / YAW_PER_RAD, axis=0)
        """`[T + 1, N]` rad, without jumps of 2 pi."""
        self.hit_points = self.battle.hp / POINTS
        """`[T + 1, N]` points."""
        self.heats = self.battle.heat / POINTS
        """`[T + 1, N]` points."""
        self.alive = (self.battle.facts & Fact.ALIVE) > 0
        """`[T + 1, N]` bool."""

    def seconds(self, substeps: int) -> Decimal:
        """Return the time of a substep since the start, s: exact for the decimal length of a substep."""
        return Decimal(repr(self.about["dt_s"])) * int(substeps)

    def name(self, n: int) -> str:
        """Return the name of a mech from its team and number, such as `blue 2`; empty for index -1."""
        if n < 0:
            return ""
        team = self.mechs[n]["team"]
        return f"{team} {n - self.about['teams'][team][0] + 1}"

    def weapon(self, index: int) -> str:
        """Return the name of a weapon; empty for index -1."""
        return str(self.about["weapons"][index]) if index >= 0 else ""

    def rows(self, table: str) -> Iterator[dict[str, int]]:
        """Yield the rows of an event table as dicts by column; `echelon.replay.battle.TABLES` lists the columns."""
        for row in getattr(self.battle, table).tolist():
            yield dict(zip(TABLES[table], row, strict=True))

    def flights(self) -> Iterator[Flight]:
        """Yield all shots with a flight, ordered by launch."""
        for number, row in enumerate(self.rows("flights")):
            points = self.battle.waypoints[row["first"] : row["first"] + row["points"]] / POS_PER_VOX
            start, end = row["launch_tick"] + 1, row["end_tick"] + 1
            yield Flight(number, row, self.weapon(row["weapon"]), start, end, points)

    def outcome(self) -> str:
        """Return the winner of the battle and the reason, in words."""
        outcome = self.battle.about["outcome"]
        return f"{outcome['winner']} by {outcome['reason'].replace('_', ' ')}"


def place(row: dict[str, int], end: str = "") -> list[float]:
    """Return the position of an event, vox, from its columns `x`, `y` and `z`.

    For a beam, `end` is `0` for its start and `1` for its end.
    """
    return [row[f"{axis}{end}"] / POS_PER_VOX for axis in "xyz"]


def decimal_text(value: Decimal | float) -> str:
    """Format a number with the fewest digits that parse to the same number, without an exponent."""
    digits = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    text = format(digits, "f") if value else "0"
    return text.rstrip("0").rstrip(".") if "." in text else text
