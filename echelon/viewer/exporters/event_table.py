"""Export of a battle's events as CSV: one row per event, ordered by time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echelon.replay.battle import POINTS, Condition, FlightEnd
from echelon.runtime.files import write_whole
from echelon.viewer.exporters.course import BattleTimeline, decimal_text, place

COLUMNS = (
    *("seconds", "substep", "event", "mech", "target", "weapon", "x", "y", "z", "to_x", "to_y", "to_z"),
    *("damage", "flight", "detail"),
)
"""Columns of the file. Positions are in vox, damage is in hit points."""


def write(course: BattleTimeline, path: Path) -> None:
    """Write the events of a battle to a CSV file.

    Raises:
        FileError: if the file cannot be written.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for event in sorted(events(course), key=lambda event: int(event["substep"])):
        seconds = decimal_text(course.seconds(event["substep"]))
        table.writerow({"seconds": seconds, **event})
    write_whole(path, text.getvalue().encode())


def events(course: BattleTimeline) -> Iterator[dict[str, Any]]:
    """Yield the events of a battle, grouped by kind; `substep` is counted from the beginning of the battle."""
    yield from shots(course)
    for row in course.rows("harms"):
        parties = {"mech": course.name(row["shooter"]), "target": course.name(row["target"])}
        damage = {"weapon": course.weapon(row["weapon"]), "damage": decimal_text(row["damage"] / POINTS)}
        yield {"substep": row["tick"] + 1, "event": "damage", **parties, **damage}
    for row in course.rows("deaths"):
        parties = {"mech": course.name(row["killer"]), "target": course.name(row["victim"])}
        yield {"substep": row["tick"] + 1, "event": "death", **parties, "weapon": course.weapon(row["weapon"])}
    for row in course.rows("conditions"):
        condition = Condition(row["condition"]).name.lower()
        yield {"substep": row["tick"] + 1, "event": "condition", "mech": course.name(row["mech"]), "detail": condition}
    for row in course.rows("clouds"):
        cloud = {"mech": course.name(row["owner"]), **cells("{}", place(row))}
        yield {"substep": row["tick"] + 1, "event": "cloud", **cloud}
        yield {"substep": row["end_tick"] + 1, "event": "cloud_end", **cloud}
    for row in course.rows("voxels"):
        moment = int(course.moments[row["decision"] + 1])
        voxel = {axis: row[axis] for axis in "xyz"}
        yield {"substep": moment, "event": "voxel", **voxel, "detail": course.about["materials"][row["material"]]}
    yield {"substep": int(course.moments[-1]), "event": "end", "detail": course.outcome()}


def shots(course: BattleTimeline) -> Iterator[dict[str, Any]]:
    """Yield the events of weapons: beams, launches of shots, and ends of flights."""
    for row in course.rows("beams"):
        parties = {"mech": course.name(row["shooter"]), "target": course.name(row["target"])}
        way = cells("{}", place(row, "0")) | cells("to_{}", place(row, "1"))
        yield {"substep": row["tick"] + 1, "event": "beam", **parties, "weapon": course.weapon(row["weapon"]), **way}
    for flight in course.flights():
        row = flight.row
        shot: dict[str, Any] = {"mech": course.name(row["shooter"]), "weapon": flight.weapon, "flight": flight.number}
        launch = {"target": course.name(row["lock"]), **cells("{}", flight.points[0])}
        yield {"substep": flight.start, "event": "launch", **shot, **launch}
        hit = {"target": course.name(row["victim"]), **cells("{}", flight.points[-1])}
        by = f" by {course.name(row['by'])}" if row["by"] >= 0 else ""
        yield {
            "substep": flight.end,
            "event": "impact",
            **shot,
            **hit,
            "detail": FlightEnd(row["met"]).name.lower() + by,
        }


def cells(name: str, position: Any) -> dict[str, str]:
    """Format a position as cells of a CSV row; `name` is a pattern such as `to_{}` for the column names."""
    return {name.format(axis): decimal_text(float(value)) for axis, value in zip("xyz", position, strict=True)}
