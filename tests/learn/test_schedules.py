"""Numbers that change over a run."""

import pytest

from echelon.learn.schedules import Schedule
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick


@pytest.mark.requirement("R44")
@pytest.mark.parametrize(
    ("shape", "middle"), [("constant", 4.0), ("linear", 3.0), ("cosine", 3.0)], ids=lambda x: str(x)
)
def test_from_first_to_last(shape, middle):
    schedule = Schedule(4.0, 2.0, shape)
    last = 4.0 if shape == "constant" else 2.0
    assert [schedule.at(0), schedule.at(1), schedule.at(5)] == [4.0, last, last]
    assert abs(schedule.at(0.5) - middle) < 1e-12
    assert schedule.lowest == last


def test_a_cosine_leaves_and_arrives_slowly():
    assert Schedule(0, 1, "cosine").at(0.1) < 0.03 and Schedule(0, 1, "cosine").at(0.9) > 0.97


def test_a_bad_schedule_is_refused():
    with pytest.raises(ConfigError, match=r"Schedule.shape must be one of .*, got 'stairs'"):
        Schedule(1, 2, "stairs")
    with pytest.raises(ConfigError, match=r"Schedule.last must be a finite number, got nan"):
        Schedule(1, float("nan"))
