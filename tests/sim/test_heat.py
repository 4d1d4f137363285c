"""Dissipation, limits and shutdown. A medium has capacity 100 and dissipates 11 heat points per second."""

import math

import pytest
from builders import duel

from echelon.rules.actions import Act
from echelon.sim.heat import is_shut_down

pytestmark = pytest.mark.quick


def alone(hull="medium", other="scout"):
    """Return a scene with a mech at (10.5, 20.5), far from other mechs."""
    return duel(25, hull, other)


@pytest.mark.usual
def test_a_mech_dissipates():
    scene = alone().set(0, heat=50)
    scene.run(scene.orders(), 20)
    assert scene.value("heat", 0) == pytest.approx(39, abs=1e-3)  # 50 - 11 in one second


def test_heat_never_falls_below_zero():
    scene = alone().set(0, heat=0.3)
    assert scene.run(scene.orders()).value("heat", 0) == 0


@pytest.mark.usual
def test_venting_dissipates_one_plus_vent_factor():
    scene = alone().set(0, heat=50)
    scene.run(scene.orders((0, Act.VENT, 1.0)), 20)
    assert scene.value("heat", 0) == pytest.approx(17, abs=1e-3)  # 50 - (11 + 2 * 11)


@pytest.mark.parametrize("state", [{"heat": 150.0}, {"heat": 50.0, "fallen": 60}])
def test_only_a_running_mech_vents(state):
    scene = alone().set(0, **state)
    scene.run(scene.orders((0, Act.VENT, 1.0)))
    assert scene.value("heat", 0) == pytest.approx(state["heat"] - 0.55, abs=1e-4)


def test_heat_stays_within_twice_the_capacity():
    scene = alone("medium", "medium").place(1, 16.5, 20.5, yaw=math.pi).set(1, heat=200)
    scene.run(scene.orders((0, Act.PRIMARY, 1.0)))
    assert scene.value("heat", 1) == 200  # 200 - 0.55 + 6 would be 205.45


def test_mech_at_its_heat_capacity_still_runs():
    # When the mech moves, a heat of 100.5 has become 99.95, and 100.6 has become 100.05.
    scene = alone().set(0, heat=100.5)
    scene.run(scene.orders((0, Act.FORWARD, 1.0)))
    assert scene.pos(0)[0] > 10.5
    scene = alone().set(0, heat=100.6)
    scene.run(scene.orders((0, Act.FORWARD, 1.0)))
    assert scene.pos(0)[0] == 10.5


def test_heat_above_capacity_shuts_down():
    scene = alone().set(0, heat=100.0)
    assert not is_shut_down(scene.state.mechs, scene.sim_model)[0, 0]
    assert is_shut_down(scene.set(0, heat=100.01).state.mechs, scene.sim_model)[0, 0]


def test_shut_down_mech_does_not_walk_turn_or_fire():
    scene = duel(6, "medium", "medium").set(0, heat=190)
    told = [(0, column, 1.0) for column in (Act.FORWARD, Act.YAW_RATE, Act.PRIMARY, Act.TERTIARY, Act.VENT)]
    scene.run(scene.orders(*told), 10)
    assert scene.pos(0) == [10.5, 20.5, 1.5]
    assert scene.value("yaw", 0) == 0
    assert scene.counted("shots", 0) == 0
    assert scene.value("heat", 0) == pytest.approx(190 - 5.5, abs=1e-3)


def test_shut_down_mech_cannot_use_jets():
    scene = duel(25, "scout", "medium").set(0, heat=120)
    scene.run(scene.orders((0, Act.VERTICAL, 1.0)), 5)
    assert scene.bottom(0) == pytest.approx(0)
    assert scene.value("heat", 0) == pytest.approx(120 - 5 * 0.65, abs=1e-3)


def test_a_shut_down_mech_coasts():
    scene = alone().set(0, heat=190)
    scene.state.mechs.vel[0, 0, 0] = 5.0
    scene.run(scene.orders((0, Act.FORWARD, -1.0)))
    # Shutdown keeps 0.8 of the horizontal velocity, and velocity damping keeps 0.98 of the result.
    assert scene.vel(0)[0] == pytest.approx(3.92)
    assert scene.pos(0)[0] == pytest.approx(10.5 + 3.92 * 0.05)


def test_a_shut_down_mech_falls():
    scene = alone().place(0, 10.5, 20.5, bottom=5.0).set(0, heat=190)
    scene.run(scene.orders())
    assert scene.vel(0)[2] == pytest.approx(-9.81 * 0.05 * 0.98)


def test_shut_down_mech_runs_again_after_cooling():
    scene = alone().set(0, heat=101.0)
    scene.run(scene.orders((0, Act.FORWARD, 1.0)), 2)  # 101 -> 100.45 -> 99.9
    assert scene.vel(0)[0] == pytest.approx(5.5 * 0.98)
