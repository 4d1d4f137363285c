"""Stability regenerates, and a mech without stability falls for three seconds."""

import pytest
import torch
from builders import duel

from echelon.rules.actions import Act

pytestmark = pytest.mark.quick


def alone(**values):
    return duel(25, "medium", "scout").set(0, **values)


@pytest.mark.usual
@pytest.mark.parametrize(
    ("values", "gain"),
    [
        ({}, 10.0),
        ({"leg_hp": 0}, 5.0),  # 1 - 0.5
        ({"suppressed": 100}, 2.5),  # 1 - 0.75
        ({"leg_hp": 0, "suppressed": 100}, 1.0),  # 1 - 1.25, but at least a tenth
    ],
)
def test_stability_regenerates_per_second(values, gain):
    scene = alone(stability=20, **values)
    scene.run(scene.orders(), 20)
    assert scene.value("stability", 0) == pytest.approx(20 + gain, abs=1e-3)


def test_suppression_timer_counts_down_before_footing():
    scene = alone(stability=20, suppressed=1)
    assert scene.run(scene.orders()).value("stability", 0) == 20.5


@pytest.mark.usual
def test_walking_halves_stability_regeneration():
    scene = alone(stability=20)
    orders = scene.orders((0, Act.FORWARD, 1.0))
    scene.run(orders)  # footing is updated before the mech starts to walk
    assert scene.value("stability", 0) == pytest.approx(20.5)
    scene.run(orders, 20)
    assert scene.value("stability", 0) == pytest.approx(25.5, abs=1e-3)


@pytest.mark.parametrize(("speed", "gain"), [(1.0, 0.5), (1.01, 0.25)])
def test_walking_means_faster_than_steady_vox_per_s(speed, gain):
    scene = alone(stability=20)
    scene.state.mechs.vel[0, 0, 1] = speed
    assert scene.run(scene.orders()).value("stability", 0) == pytest.approx(20 + gain)


@pytest.mark.parametrize(("values", "cap"), [({}, 100), ({"leg_hp": 0}, 50)])
def test_stability_stops_at_its_cap(values, cap):
    scene = alone(stability=cap - 0.1, **values)
    assert scene.run(scene.orders()).value("stability", 0) == cap


def test_lost_legs_halve_the_stability_cap():
    scene = alone(stability=100, leg_hp=0)
    assert scene.run(scene.orders()).value("stability", 0) == 50


def test_fall_lasts_fall_s():
    scene = alone(stability=0)
    orders = scene.orders((0, Act.FORWARD, 1.0), (0, Act.YAW_RATE, 1.0), (0, Act.TERTIARY, 1.0))
    scene.run(orders)
    assert scene.value("fallen", 0) == 60
    scene.run(orders, 4)
    assert scene.value("fallen", 0) == 56
    scene.set(0, fallen=3).run(orders, 2)
    assert scene.value("fallen", 0) == 1
    assert scene.pos(0)[:2] == [10.5, 20.5] and scene.value("yaw", 0) == 0
    assert scene.counted("shots", 0) == 0
    assert scene.value("stability", 0) == 0
    scene.run(orders)
    assert scene.value("fallen", 0) == 0
    assert scene.value("stability", 0) == 50
    assert scene.pos(0)[0] > 10.5 and scene.counted("shots", 0) == 1


def test_mech_without_legs_stands_up_with_risen_share_of_its_cap():
    scene = alone(stability=0, fallen=1, leg_hp=0)
    assert scene.run(scene.orders()).value("stability", 0) == 25


def test_a_fall_stops_the_mech():
    scene = alone(stability=0, heat=190)  # shut down, so it would coast
    scene.state.mechs.vel[0, 0, 0] = 5.0
    scene.run(scene.orders())
    assert scene.vel(0)[0] == 0 and scene.pos(0)[0] == 10.5


@pytest.mark.usual
def test_gravity_pulls_a_fallen_mech():
    scene = alone(stability=0).place(0, 10.5, 20.5, bottom=3.0)
    scene.run(scene.orders(), 30)
    assert scene.bottom(0) == pytest.approx(0)


def test_dead_mechs_do_not_fall():
    scene = alone(hp=0, stability=0)
    assert scene.run(scene.orders(), 3).value("fallen", 0) == 0


def test_knockdown_in_the_air_resets_the_velocity():
    scene = alone(stability=0).place(0, 20, 20, bottom=10)
    scene.state.mechs.vel[0, 0] = torch.tensor([3.0, 2.0, 5.0])
    rules = scene.sim_model.rules
    scene.run(scene.orders())
    assert scene.value("fallen", 0) > 0
    assert scene.vel(0) == pytest.approx([0, 0, -rules.gravity_vox_per_s2 * rules.dt_s * rules.velocity_damping])
