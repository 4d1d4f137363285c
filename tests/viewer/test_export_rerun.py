"""A battle as a Rerun recording, read back by Rerun's own reader."""

import subprocess
import sys

import numpy as np
import pytest
from exported import COURSES, small_course

from echelon.replay.battle import POINTS, POS_PER_VOX
from echelon.runtime.files import FileError

pytestmark = pytest.mark.integrations
pytest.importorskip("rerun", exc_type=ImportError)


def entries(path) -> dict[str, list[dict]]:
    """The rows of a recording by entity, without the numbers that each log call draws."""
    from rerun.chunk import RrdReader

    reader = RrdReader(path)
    assert len(reader.recordings()) == 1
    found: dict[str, list[dict]] = {}
    for chunk in reader.stream():
        for row in chunk.to_record_batch().to_pylist():
            row.pop("rerun.controls.RowId")
            found.setdefault(chunk.entity_path, []).append(row)
    return found


def written(course, path):
    from echelon.viewer.exporters import rerun_recording

    rerun_recording.write(course, path)
    return entries(path)


@pytest.fixture(params=COURSES)
def course(request):
    return COURSES[request.param]()


def seconds(row: dict) -> float:
    return row["time"].total_seconds()


def test_rerun_positions_and_times_are_exact(course, tmp_path):
    found = written(course, tmp_path / "battle.rrd")
    for n in range(len(course.mechs)):
        rows = [
            row for row in found[f"/mechs/{course.name(n).replace(' ', '/')}"] if row.get("Transform3D:translation")
        ]
        living = int(course.alive[:, n].sum())
        assert [row["substep"] for row in rows] == course.moments[:living].tolist()
        assert [seconds(row) for row in rows] == [float(course.seconds(k)) for k in course.moments[:living]]
        places = np.array([row["Transform3D:translation"][0] for row in rows])
        assert (places == course.battle.pos[:living, n] / POS_PER_VOX).all()
        *_, sine, cosine = np.array([row["Transform3D:quaternion"][0] for row in rows]).T
        yaw = course.battle.yaw[:living, n] / 8192
        assert cosine**2 - sine**2 == pytest.approx(np.cos(yaw), abs=1e-5)
        assert 2 * sine * cosine == pytest.approx(np.sin(yaw), abs=1e-5)


def test_rerun_hit_points_and_heat_are_time_series(course, tmp_path):
    found = written(course, tmp_path / "battle.rrd")
    for n in range(len(course.mechs)):
        entity = course.name(n).replace(" ", "/")
        for name, values in (("hit_points", course.battle.hp), ("heat", course.battle.heat)):
            series = [row["Scalars:scalars"][0] for row in found[f"/{name}/{entity}"]]
            assert series == (values[:, n] / POINTS).tolist()


def test_rerun_shots_fly_from_launch_to_impact(course, tmp_path):
    found = written(course, tmp_path / "battle.rrd")
    shots = {row["substep"]: row["Points3D:positions"] or [] for row in found["/shots"]}
    assert list(shots) == list(range(int(course.moments[-1]) + 1))
    count = np.zeros(len(shots), int)
    for flight in course.battle.flights.tolist():
        way = (course.battle.waypoints[flight[7] : flight[7] + flight[8]] / POS_PER_VOX).tolist()
        assert way[-1] in shots[flight[1] + 1] and (flight[0] == flight[1] or way[0] in shots[flight[0] + 1])
        count[flight[0] + 1 : flight[1] + 2] += 1
    assert [len(positions) for positions in shots.values()] == count.tolist()
    beams = [(row["substep"], strip) for row in found.get("/beams", []) for strip in row["LineStrips3D:strips"] or []]
    ends = (course.battle.beams[:, 4:] / POS_PER_VOX).reshape(-1, 2, 3).tolist()
    assert beams == list(zip((course.battle.beams[:, 0] + 1).tolist(), ends, strict=True))


def test_rerun_clears_the_dead_and_tells_events(tmp_path):
    found = written(small_course(), tmp_path / "battle.rrd")
    (cleared,) = (row for row in found["/mechs/red/2"] if row.get("Clear:is_recursive"))
    assert cleared["substep"] == 79 and seconds(cleared) == 3.95
    texts = [(row["substep"], row["TextLog:text"][0]) for row in found["/events"]]
    assert texts[0] == (0, "heuristic:expert against heuristic:hard <b>bold</b>")
    assert (79, "red 2 died by blue 1") in texts and texts[-1] == (120, "blue by time up")
    assert {"/terrain/dirt", "/terrain/solid", "/score/blue"} <= found.keys()


def test_two_rerun_recordings_hold_the_same(tmp_path):
    course = COURSES["kept"]()
    assert written(course, tmp_path / "one.rrd") == written(course, tmp_path / "two.rrd")


def test_rerun_finds_no_fault_in_a_recording(tmp_path):
    written(small_course(), tmp_path / "battle.rrd")
    program = [sys.executable, "-m", "rerun", "rrd", "verify", str(tmp_path / "battle.rrd")]
    ran = subprocess.run(program, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_full_disk_prints_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    from echelon.viewer.exporters import rerun_recording

    def fail(self, **_):
        raise RuntimeError("File-writer thread shut down prematurely")

    monkeypatch.setattr(rerun_recording.rr.RecordingStream, "flush", fail)
    with pytest.raises(FileError, match=r"battle.rrd: cannot be written: File-writer thread shut down prematurely"):
        rerun_recording.write(small_course(), tmp_path / "battle.rrd")
    assert list(tmp_path.iterdir()) == []
