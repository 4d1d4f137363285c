"""Schedules of hyperparameters."""

import pytest

from echelon.learn.schedules import Schedule
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick


@pytest.mark.requirement("R44")
@pytest.mark.parametrize(
    ("shape", "middle"), [("constant", 4.0), ("linear", 3.0), ("cosine", 3.0)], ids=lambda x: str(x)
)
def test_schedule_interpolates_from_first_to_last(shape, middle):
    schedule = Schedule(4.0, 2.0, shape)
    last = 4.0 if shape == "constant" else 2.0
    assert [schedule.at(0), schedule.at(1), schedule.at(5)] == [4.0, last, last]
    assert abs(schedule.at(0.5) - middle) < 1e-12
    assert schedule.lowest == last


def test_cosine_schedule_has_zero_slope_at_both_ends():
    assert Schedule(0, 1, "cosine").at(0.1) < 0.03 and Schedule(0, 1, "cosine").at(0.9) > 0.97


def test_invalid_schedule_raises():
    with pytest.raises(ConfigError, match=r"Schedule.shape must be one of .*, got 'stairs'"):
        Schedule(1, 2, "stairs")
    with pytest.raises(ConfigError, match=r"Schedule.last must be a finite number, got nan"):
        Schedule(1, float("nan"))
