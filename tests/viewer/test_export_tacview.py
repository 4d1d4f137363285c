"""A battle as a Tacview recording, read back by a parser of its own and by pyacmi."""

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from exported import COURSES, small_course

from echelon.replay.battle import POS_PER_VOX
from echelon.viewer.exporters import tacview

FIELDS = {3: (), 5: ("u", "v"), 6: ("roll", "pitch", "yaw"), 9: ("roll", "pitch", "yaw", "u", "v", "heading")}
"""Fields of a position after longitude, latitude and altitude, by their number: the four forms of the format."""


class Recording:
    """What the lines of an ACMI file say: values by object, name and time, removals and events."""

    def __init__(self, text: str) -> None:
        self.values: dict[str, dict[str, dict[Decimal, str]]] = {}
        self.removed: dict[str, Decimal] = {}
        self.events: list[tuple[Decimal, list[str]]] = []
        self.times: list[Decimal] = []
        header, self.world = text.removeprefix("\ufeff").split("\n", 2)[:2], {}
        assert header == ["FileType=text/acmi/tacview", "FileVersion=2.2"]
        for line in text.split("\n")[2:]:
            self.read(line)

    def read(self, line: str) -> None:
        if not line:
            return
        if line[0] == "#":
            self.times.append(Decimal(line[1:]))
            return
        if line[0] == "-":
            self.removed[line[1:]] = self.times[-1]
            return
        name, *pairs = [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", line)]
        values = dict(pair.split("=", 1) for pair in pairs)
        if name == "0" and "Event" in values:
            self.events.append((self.times[-1], values["Event"].split("|")))
        elif name == "0":
            self.world |= values
        else:
            assert name not in self.removed, "an object that was removed has no state"
            for key, value in values.items():
                self.values.setdefault(name, {}).setdefault(key, {})[self.times[-1]] = value

    def positions(self, name: str) -> dict[Decimal, dict[str, float]]:
        """The fields of each position of an object, by time."""
        found = {}
        for time, text in self.values[name]["T"].items():
            first, *others = text.split("|")
            names = ("longitude", "latitude", "altitude", *FIELDS[1 + len(others)])
            found[time] = dict(zip(names, map(float, (first, *others)), strict=True))
        return found


@pytest.fixture(params=COURSES)
def course(request):
    return COURSES[request.param]()


def written(course, tmp_path) -> Recording:
    tacview.write(course, tmp_path / "battle.acmi")
    return Recording((tmp_path / "battle.acmi").read_text(encoding="utf-8"))


def test_tacview_positions_and_times_are_exact(course, tmp_path):
    recording = written(course, tmp_path)
    step_s = Decimal(repr(course.about["dt_s"])) * course.about["decision_repeat"]
    for n in range(len(course.mechs)):
        living = int(course.alive[:, n].sum())
        found = recording.positions(f"{n + 1:x}")
        assert list(found) == [step_s * moment for moment in range(living)]
        place = np.array([[state[axis] for axis in ("u", "v", "altitude")] for state in found.values()])
        assert (place == course.battle.pos[:living, n] / POS_PER_VOX).all()
        globe = np.array([[state["longitude"], state["latitude"]] for state in found.values()])
        assert globe * 111_319.49 == pytest.approx(place[:, :2], abs=1e-3)
    assert recording.times == sorted(set(recording.times))


def test_tacview_headings_turn_clockwise_from_north(tmp_path):
    course = small_course()
    recording = written(course, tmp_path)
    east, west = (next(iter(recording.positions(name).values())) for name in ("1", "3"))
    assert east["heading"] == east["yaw"] == 90 and west["heading"] == pytest.approx(270, abs=0.01)
    later = recording.positions("3")[Decimal("0.25")]
    assert later["heading"] == pytest.approx(270 + math.degrees(0.02), abs=0.02), "right of west is north"


def test_tacview_shots_fly_from_launch_to_impact(course, tmp_path):
    recording = written(course, tmp_path)
    dt_s = Decimal(repr(course.about["dt_s"]))
    for number, flight in enumerate(course.battle.flights.tolist()):
        name = f"{0x1000 + number:x}"
        ways = recording.positions(name)
        way = course.battle.waypoints[flight[7] : flight[7] + flight[8]] / POS_PER_VOX
        assert next(iter(ways)) == (flight[0] + 1) * dt_s and recording.removed[name] == (flight[1] + 1) * dt_s
        if flight[1] > flight[0]:
            assert [[at["u"], at["v"], at["altitude"]] for at in ways.values()] == way.tolist()
            assert len(ways) == 1 or list(ways)[-1] == recording.removed[name]


def test_tacview_names_what_happened(tmp_path):
    recording = written(small_course(), tmp_path)
    deaths = [(time, fields[1:]) for time, fields in recording.events if fields[0] == "Destroyed"]
    assert deaths == [(Decimal("3.95"), ["4", "red 2 died by blue 1"]), (Decimal("4.9"), ["2", "blue 2 died"])]
    assert recording.removed["4"] == Decimal("3.95") and "1" not in recording.removed
    assert recording.events[-1] == (Decimal(6), ["Bookmark", "blue by time up"])
    assert {value for name in "1234" for value in recording.values[name]["Type"].values()} == {tacview.MECH_TYPE}
    assert recording.values["3"]["Health"][Decimal("1.5")] == "0.7333"
    assert recording.values["1"]["Heat"][Decimal("2.5")] == "140"


def test_tacview_text_with_commas_and_line_breaks_stays_one_value(tmp_path):
    course = small_course()
    course.battle.about["red"] = "a, b\nc"
    recording = written(course, tmp_path)
    assert recording.world["Title"] == "heuristic:expert against a, b/nc"


@pytest.mark.integrations
@pytest.mark.parametrize("which", COURSES)
def test_pyacmi_reads_the_positions_of_a_recording(tmp_path, which):
    pyacmi = pytest.importorskip("pyacmi", exc_type=ImportError)
    course = COURSES[which]()
    tacview.write(course, tmp_path / "battle.acmi")
    found = pyacmi.Acmi()
    found.load_acmi(str(tmp_path / "battle.acmi"))
    for n in range(len(course.mechs)):
        mech = found.objects[f"{n + 1:x}"]
        for moment in np.flatnonzero(course.alive[:, n]):
            time = float(course.seconds(course.moments[moment]))
            place = [mech.u(time), mech.v(time), mech.altitude(time)]
            assert place == course.positions[moment, n].tolist()
        assert mech.type == "Tank"
