"""Replays as files for other programs: `export_replay`, its refusals, and the CSV of events."""

import csv
import sys
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from exported import COURSES, KEPT, small_course
from scenes import HEAVY, LIGHT

from echelon.replay.battle import POINTS, POS_PER_VOX, TABLES
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.viewer.exporters import SUFFIXES, event_table, export_replay
from echelon.viewer.exporters.course import decimal_text


def table(path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(params=COURSES)
def course(request):
    return COURSES[request.param]()


def test_csv_holds_every_event_of_the_replay(course, tmp_path):
    event_table.write(course, tmp_path / "battle.csv")
    rows = table(tmp_path / "battle.csv")
    count = {name: len(getattr(course.battle, name)) for name in TABLES}
    expected = {
        **{"beam": count["beams"], "launch": count["flights"], "impact": count["flights"]},
        **{"damage": count["harms"], "death": count["deaths"], "condition": count["conditions"]},
        **{"cloud": count["clouds"], "cloud_end": count["clouds"], "voxel": count["voxels"], "end": 1},
    }
    assert Counter(row["event"] for row in rows) == {name: number for name, number in expected.items() if number}
    times = [Decimal(row["seconds"]) for row in rows]
    assert times == sorted(times)


def test_csv_times_and_positions_are_exact(course, tmp_path):
    event_table.write(course, tmp_path / "battle.csv")
    rows = table(tmp_path / "battle.csv")
    dt_s = Decimal(repr(course.about["dt_s"]))
    assert all(Decimal(row["seconds"]) == int(row["substep"]) * dt_s for row in rows)
    beams = [row for row in rows if row["event"] == "beam"]
    found = np.array([[float(beam[name]) for name in ("x", "y", "z", "to_x", "to_y", "to_z")] for beam in beams])
    assert (found.reshape(-1, 6) == course.battle.beams[:, 4:] / POS_PER_VOX).all()
    ends = sorted(
        (int(row["flight"]), [float(row[axis]) for axis in "xyz"]) for row in rows if row["event"] == "impact"
    )
    last = course.battle.flights[:, 7] + course.battle.flights[:, 8] - 1
    assert [position for _, position in ends] == (course.battle.waypoints[last] / POS_PER_VOX).tolist()
    damage = sum(Decimal(row["damage"]) for row in rows if row["event"] == "damage")
    assert damage == Decimal(int(course.battle.harms[:, 3].sum())) / POINTS


def test_csv_names_mechs_weapons_and_causes(tmp_path):
    course = small_course()
    event_table.write(course, tmp_path / "battle.csv")
    rows = table(tmp_path / "battle.csv")
    first, second = [row for row in rows if row["event"] == "death"]
    assert (first["seconds"], first["mech"], first["target"], first["weapon"]) == ("3.95", "blue 1", "red 2", "gauss")
    assert (course.name(HEAVY), course.name(LIGHT)) == ("blue 1", "red 2")
    assert (second["mech"], second["target"], second["weapon"]) == ("", "blue 2", "")
    details = [row["detail"] for row in rows if row["event"] == "impact"]
    assert sorted(details) == ["ams by red 1", "mech", "mech", "nothing", "voxel"]
    assert rows[-1]["detail"] == "blue by time up" and rows[-1]["seconds"] == "6"


@pytest.mark.parametrize("to", ["csv", "tacview", "gltf"])
def test_two_exports_have_the_same_bytes(tmp_path, to):
    for name in ("one", "two"):
        export_replay(KEPT, to, tmp_path / f"{name}{SUFFIXES[to]}")
    one, two = ((tmp_path / f"{name}{SUFFIXES[to]}").read_bytes() for name in ("one", "two"))
    assert one == two and len(one) > 1000


def test_an_existing_file_is_replaced(tmp_path):
    (tmp_path / "battle.csv").write_text("old")
    export_replay(KEPT, "csv", tmp_path / "battle.csv")
    assert len((tmp_path / "battle.csv").read_bytes()) > 1000


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"to": "avi"}, ConfigError, "to must be one of csv, tacview, gltf, mp4, rerun, got 'avi'"),
        ({"out": "battle.txt"}, ConfigError, "out must be the name of a file that ends with .csv, got "),
        ({"out": "folder.csv"}, FileError, "folder.csv: expected a file name, got a folder"),
        ({"out": "there.csv/battle.csv"}, FileError, "cannot be written: "),
        ({"battle": 0}, ConfigError, "battle must be 1..1, the battles of the replay, got 0"),
        ({"battle": 2}, ConfigError, "battle must be 1..1, the battles of the replay, got 2"),
        ({"replay": "there.csv"}, FileError, "there.csv: "),
        ({"replay": "gone.echelon"}, FileError, "gone.echelon: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_prints_one_line_and_leaves_nothing(tmp_path, monkeypatch, changed, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("kept")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(error) as raised:
        export_replay(**({"replay": KEPT, "to": "csv", "out": "battle.csv", "battle": 1} | changed))
    assert message in str(raised.value) and "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "kept"


@pytest.mark.parametrize(("to", "package", "module"), [("mp4", "av", "video"), ("rerun", "rerun", "rerun_recording")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, to, package, module):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"echelon.viewer.exporters.{module}", raising=False)
    message = f"format {to} needs {package}, which is not installed: pip install 'echelon-marl\\[export\\]'"
    with pytest.raises(ConfigError, match=message):
        export_replay(KEPT, to, tmp_path / f"battle{SUFFIXES[to]}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("value", "text"), [(0.015625, "0.015625"), (100.0, "100"), (-0.0, "0"), (1e-5, "0.00001")])
def test_numbers_are_written_without_exponent(value, text):
    assert decimal_text(Decimal(repr(value))) == text
