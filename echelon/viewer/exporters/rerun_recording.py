"""Export of a battle as a Rerun recording: terrain, mechs, shots, and hit points and heat over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr

from echelon.replay.battle import SCORE_PER_S, Condition
from echelon.replay.file import arrays_of, digest
from echelon.runtime.errors import one_line
from echelon.runtime.files import FileError, atomic_write
from echelon.viewer.exporters.course import TEAM_COLOURS, BattleTimeline, place
from echelon.viewer.exporters.ground_mesh import ground_meshes
from echelon.viewer.topdown import COLOURS

SUBSTEP, TIME = "substep", "time"
"""The two timelines: a sequence, and a duration since the battle began."""


def write(course: BattleTimeline, path: Path) -> None:
    """Write the recording of one battle.

    The recording's identifier is a hash of the battle, so a viewer does not merge different battles. The terrain is the
    one at the beginning of the battle.

    Raises:
        FileError: if the file cannot be written.
    """
    identifier = digest(arrays_of(course.battle))[:32]
    # Leave out properties and log times, because they contain the time of writing.
    recording = rr.RecordingStream("echelon", recording_id=identifier, send_properties=False)
    recording.set_log_time_enabled(False)
    recording.set_log_tick_enabled(False)
    with atomic_write(path) as draft:
        recording.save(draft)
        try:
            log_ground(course, recording)
            log_mechs(course, recording)
            log_shots(course, recording)
            log_events(course, recording)
            recording.flush()
        except RuntimeError as error:  # Rerun raises this if its writer thread has ended
            raise FileError(f"{path}: cannot be written: {error}") from None
        finally:
            recording.disconnect()


def log_ground(course: BattleTimeline, recording: rr.RecordingStream) -> None:
    """Log the terrain at the beginning of the battle as one mesh per material."""
    recording.log("/", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    for material, corners, triangles in ground_meshes(course.ground):
        name = course.about["materials"][material]
        mesh = rr.Mesh3D(vertex_positions=corners, triangle_indices=triangles, albedo_factor=COLOURS[name])
        recording.log(f"terrain/{name}", mesh, static=True)


def log_mechs(course: BattleTimeline, recording: rr.RecordingStream) -> None:
    """Log position, box, hit points and heat of each mech, and the scores of both teams.

    The position is logged while the mech is alive.
    """
    deaths = {row["victim"]: row["tick"] + 1 for row in course.rows("deaths")}
    for n, mech in enumerate(course.mechs):
        entity = course.name(n).replace(" ", "/")
        living = course.alive[:, n]
        half = course.yaws[living, n] / 2
        zeros = np.zeros_like(half)
        turns = np.stack((zeros, zeros, np.sin(half), np.cos(half)), -1)
        poses = rr.Transform3D.columns(translation=course.positions[living, n], quaternion=turns)
        send(course, recording, f"mechs/{entity}", course.moments[living], poses)
        label = f"{course.name(n)} {mech['hull']}"
        box = rr.Boxes3D(half_sizes=[np.array(mech["size"]) / 2], colors=[TEAM_COLOURS[mech["team"]]], labels=[label])
        log_at(course, recording, 0, f"mechs/{entity}", box)
        if n in deaths:
            log_at(course, recording, deaths[n], f"mechs/{entity}", rr.Clear(recursive=True))
        for name, values in (("hit_points", course.hit_points[:, n]), ("heat", course.heats[:, n])):
            send(course, recording, f"{name}/{entity}", course.moments, rr.Scalars.columns(scalars=values))
    for side, team in enumerate(TEAM_COLOURS):
        scores = course.battle.score[:, side] / SCORE_PER_S
        send(course, recording, f"score/{team}", course.moments, rr.Scalars.columns(scalars=scores))


def log_shots(course: BattleTimeline, recording: rr.RecordingStream) -> None:
    """Log all shots in flight and all beams of each substep, in their team's colour."""
    substeps = range(int(course.moments[-1]) + 1)
    colours = [TEAM_COLOURS[mech["team"]] for mech in course.mechs]
    shots: list[list[tuple[np.ndarray, Any]]] = [[] for _ in substeps]
    for flight in course.flights():
        for substep in range(flight.start, flight.end + 1):
            shots[substep].append((flight.at(substep), colours[flight.row["shooter"]]))
    beams: list[list[tuple[Any, Any]]] = [[] for _ in substeps]
    for row in course.rows("beams"):
        beams[row["tick"] + 1].append(([place(row, "0"), place(row, "1")], colours[row["shooter"]]))
    for entity, rows in (("shots", shots), ("beams", beams)):
        items = [item for row in rows for item in row]
        if not items:
            continue
        shapes, shades = zip(*items, strict=True)
        if entity == "shots":
            columns = rr.Points3D.columns(positions=np.array(shapes), colors=shades)
        else:
            columns = rr.LineStrips3D.columns(strips=np.array(shapes), colors=shades)
        send(course, recording, entity, np.array(substeps), columns.partition([len(row) for row in rows]))


def log_events(course: BattleTimeline, recording: rr.RecordingStream) -> None:
    """Log deaths, changes of mechs' condition, and the beginning and the end of the battle as text."""
    about = course.battle.about
    texts = [(0, f"{one_line(about['blue'])} against {one_line(about['red'])}")]
    for row in course.rows("deaths"):
        cause = f" by {course.name(row['killer'])}" if row["killer"] >= 0 else ""
        texts.append((row["tick"] + 1, f"{course.name(row['victim'])} died{cause}"))
    for row in course.rows("conditions"):
        condition = Condition(row["condition"]).name.lower().replace("_", " ")
        texts.append((row["tick"] + 1, f"{course.name(row['mech'])}: {condition}"))
    texts.append((int(course.moments[-1]), course.outcome()))
    for substep, text in sorted(texts, key=lambda entry: entry[0]):
        log_at(course, recording, substep, "events", rr.TextLog(text))


def nanoseconds(course: BattleTimeline, substeps: Any) -> np.ndarray:
    """Return the exact times of substeps since the start, as `timedelta64[ns]`."""
    return np.array([int(course.seconds(substep) * 10**9) for substep in substeps], "timedelta64[ns]")


def send(
    course: BattleTimeline, recording: rr.RecordingStream, entity: str, substeps: np.ndarray, columns: Any
) -> None:
    """Log columns that have one row per substep in `substeps`."""
    times = [rr.TimeColumn(SUBSTEP, sequence=substeps), rr.TimeColumn(TIME, duration=nanoseconds(course, substeps))]
    rr.send_columns(entity, indexes=times, columns=columns, recording=recording)


def log_at(course: BattleTimeline, recording: rr.RecordingStream, substep: int, entity: str, value: Any) -> None:
    """Log one value at a substep of the battle."""
    recording.set_time(SUBSTEP, sequence=substep)
    recording.set_time(TIME, duration=nanoseconds(course, [substep])[0])
    recording.log(entity, value)
