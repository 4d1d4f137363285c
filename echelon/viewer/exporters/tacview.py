"""Export of a battle as a Tacview recording (ACMI 2.2): mechs and shots on a flat world, one voxel is a metre."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from echelon.replay.battle import Condition
from echelon.runtime.errors import one_line
from echelon.runtime.files import write_whole
from echelon.runtime.version import VERSION
from echelon.viewer.exporters.course import BattleTimeline, Flight, decimal_text, place

MECH_TYPE = "Ground+Heavy+Armor+Vehicle+Tank"
"""Readers keep the positions of objects of this type. They drop those of `Human+Infantry`, of anything static, and of
types of one's own."""
SHOT_TYPES = {"rocket": "Weapon+Missile", "slug": "Projectile+Shell", "canister": "Projectile+Shell"}
"""By the look of a weapon; others are `Projectile+Bullet`."""
BEAM_TYPE = "Weapon+Beam"
METRES_PER_DEGREE = 111_319.49
"""On the equator, where the map lies."""
HEADER = ("FileType=text/acmi/tacview", "FileVersion=2.2")
EPOCH = "2000-01-01T00:00:00Z"
"""Time 0 of every battle."""
FIRST_FLIGHT, FIRST_BEAM = 0x1000, 0x1000000
"""Object numbers, written in hexadecimal. Mech n is n + 1; 0 is the world."""


def write(course: BattleTimeline, path: Path) -> None:
    """Write mechs, shots, deaths and changes of condition of a battle.

    Terrain is not written, because the format cannot store it.

    Raises:
        FileError: if the file cannot be written.
    """
    about = course.battle.about
    title = f"{one_line(about['blue'])} against {one_line(about['red'])}"
    world = {"ReferenceTime": EPOCH, "ReferenceLongitude": "0", "ReferenceLatitude": "0", "Title": title}
    world |= {"DataSource": f"Echelon {VERSION}", "DataRecorder": "echelon-arena export-replay"}
    lines = [*HEADER, *(f"0,{name}={escaped(value)}" for name, value in world.items())]
    frames = frames_of(course)
    for time in sorted(frames):
        lines += [f"#{decimal_text(time)}", *frames[time]]
    write_whole(path, "\ufeff".encode() + "\n".join([*lines, ""]).encode())


def frames_of(course: BattleTimeline) -> dict[Decimal, list[str]]:
    """Return the lines of the file, keyed by time, s: states and events first, then removals of objects."""
    states: dict[Decimal, list[str]] = defaultdict(list)
    removals: dict[Decimal, list[str]] = defaultdict(list)
    add_mechs(course, states, removals)
    for flight in course.flights():
        add_flight(course, flight, states, removals)
    for number, row in enumerate(course.rows("beams")):
        name = f"{FIRST_BEAM + number:x}"
        start, end = course.seconds(row["tick"]), course.seconds(row["tick"] + 1)
        weapon = course.weapon(row["weapon"])
        states[start].append(new_object(course, name, place(row, "0"), BEAM_TYPE, weapon, row["shooter"]))
        states[end].append(f"{name},T={position_text(place(row, '1'))}")
        removals[end].append(f"-{name}")
    for time, text in events_of(course):
        states[time].append(f"0,Event={text}")
    return {time: states[time] + removals[time] for time in states.keys() | removals.keys()}


def add_mechs(course: BattleTimeline, states: dict[Decimal, list[str]], removals: dict[Decimal, list[str]]) -> None:
    """Add a line for each living mech at each moment, with heat and hit points, and a removal at the mech's death."""
    deaths = {row["victim"]: row["tick"] + 1 for row in course.rows("deaths")}
    for n, mech in enumerate(course.mechs):
        identity = {
            "Name": mech["hull"],
            "Type": MECH_TYPE,
            "CallSign": course.name(n),
            "Group": f"pack {mech['pack']}",
        }
        identity |= {"Coalition": mech["team"], "Color": mech["team"].capitalize()}
        identity |= dict(zip(("Length", "Width", "Height"), map(decimal_text, mech["size"]), strict=True))
        for moment, substep in enumerate(course.moments):
            if not course.alive[moment, n]:
                break
            heading = (90 - math.degrees(course.yaws[moment, n])) % 360
            state = {"T": position_text(course.positions[moment, n], heading)} | (identity if moment == 0 else {})
            state |= {"Health": decimal_text(round(course.hit_points[moment, n] / mech["hp"], 4))}
            state |= {"HitPoints": decimal_text(course.hit_points[moment, n])}
            state |= {"Heat": decimal_text(course.heats[moment, n])}
            states[course.seconds(substep)].append(object_line(f"{n + 1:x}", state))
        if n in deaths:
            removals[course.seconds(deaths[n])].append(f"-{n + 1:x}")


def add_flight(
    course: BattleTimeline, flight: Flight, states: dict[Decimal, list[str]], removals: dict[Decimal, list[str]]
) -> None:
    """Add a line for a shot at each waypoint of its flight, and a removal at the flight's end."""
    name = f"{FIRST_FLIGHT + flight.number:x}"
    look = course.about["weapon_specs"][flight.weapon]["look"]
    kind = SHOT_TYPES.get(look, "Projectile+Bullet")
    last = max(len(flight.points) - 1, 1)
    for number, point in enumerate(flight.points):
        share = Fraction(number, last) * (flight.end - flight.start) + flight.start
        time = round(course.seconds(1) * share.numerator / share.denominator, 9)
        first = new_object(course, name, point, kind, flight.weapon, flight.row["shooter"])
        states[time].append(f"{name},T={position_text(point)}" if number else first)
    removals[course.seconds(flight.end)].append(f"-{name}")


def events_of(course: BattleTimeline) -> list[tuple[Decimal, str]]:
    """Return deaths, changes of mechs' condition and the end of the battle as texts with their times, s."""
    events = []
    for row in course.rows("deaths"):
        cause = f" by {course.name(row['killer'])}" if row["killer"] >= 0 else ""
        text = f"Destroyed|{row['victim'] + 1:x}|{course.name(row['victim'])} died{cause}"
        events.append((course.seconds(row["tick"] + 1), text))
    for row in course.rows("conditions"):
        text = f"Message|{row['mech'] + 1:x}|{Condition(row['condition']).name.lower().replace('_', ' ')}"
        events.append((course.seconds(row["tick"] + 1), text))
    return [*events, (course.seconds(course.moments[-1]), f"Bookmark|{course.outcome()}")]


def new_object(course: BattleTimeline, name: str, position: Any, kind: str, weapon: str, shooter: int) -> str:
    """Return the line that creates the object of a shot or a beam."""
    team = course.mechs[shooter]["team"]
    state = {"T": position_text(position), "Name": weapon, "Type": kind, "Parent": f"{shooter + 1:x}"}
    return object_line(name, state | {"Coalition": team, "Color": team.capitalize()})


def object_line(name: str, state: dict[str, str]) -> str:
    return ",".join([name, *(f"{key}={escaped(value)}" for key, value in state.items())])


def position_text(position: Any, heading: float | None = None) -> str:
    """Return an object's coordinates in a form that Tacview reads: 5 fields, or 9 fields if there is a heading.

    Longitude and latitude are degrees near 0, for readers without support for flat worlds; east, north and altitude are
    exact.
    """
    east, north, altitude = (float(value) for value in position)
    globe = [decimal_text(round(value / METRES_PER_DEGREE, 9)) for value in (east, north)]
    flat = [decimal_text(value) for value in (east, north)]
    if heading is None:
        return "|".join([*globe, decimal_text(altitude), *flat])
    angle = decimal_text(round(heading, 3))
    return "|".join([*globe, decimal_text(altitude), "0", "0", angle, *flat, angle])


def escaped(text: str) -> str:
    """Escape a value for a line of the file, in which an unescaped comma would end the value."""
    return text.replace("\\", "/").replace(",", "\\,")
