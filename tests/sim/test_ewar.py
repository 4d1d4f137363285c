"""Heat and effects of ECM and ECCM. Sensor quality = clip(1 - 0.85 jam + 0.65 eccm, 0.25, 1.5)."""

import pytest
from builders import battle, duel

from echelon.rules.actions import Act
from echelon.runtime.geometry import length, pairwise_offset
from echelon.sim import ewar

pytestmark = pytest.mark.quick

ECM, ECCM = 0.3, 0.8
VIEWER, FRIEND, FOE, OTHER_FOE = range(4)


def field():
    """Return a scene with a blue medium, a blue scout and two red scouts, far from each other, at the same height."""
    s = battle(("medium", "scout"), ("scout", "scout"))
    return (
        s.place(VIEWER, 0.5, 0.5)
        .place(FRIEND, 500, 0, bottom=0.6)
        .place(FOE, 0, 500, bottom=0.6)
        .place(OTHER_FOE, 500, 500, bottom=0.6)
    )


def near(s, mech, distance):
    """Place a scout at `distance` from the viewer."""
    return s.place(mech, 0.5 + distance, 0.5, bottom=0.6)


def sense(s, *emits):
    """Return the sensors of the battle while (mech, secondary) pairs emit."""
    orders = s.orders(*((mech, Act.SECONDARY, value) for mech, value in emits))
    return ewar.sense(s.state, orders, length(pairwise_offset(s.state.mechs.pos)), s.sim_model)


def quality(s, *emits, of=VIEWER):
    return sense(s, *emits).quality[0, of].item()


def test_undisturbed_sensor_quality_is_one():
    assert sense(field()).quality.tolist() == [[1, 1, 1, 1]]
    assert not sense(field()).jam.any()


@pytest.mark.parametrize(
    ("distance", "jam", "left"), [(25, 0.5, 0.575), (10, 0.8, 0.32), (5, 0.9, 0.25), (49, 0.02, 0.983), (51, 0, 1)]
)
def test_ecm_strength_falls_off_linearly_to_zero(distance, jam, left):
    sensors = sense(near(field(), FOE, distance), (FOE, ECM))
    assert sensors.jam[0, VIEWER].item() == pytest.approx(jam, abs=1e-5)
    assert sensors.quality[0, VIEWER].item() == pytest.approx(left, abs=1e-5)


@pytest.mark.parametrize(("distance", "gained"), [(25, 1.325), (40, 1.13), (10, 1.5), (51, 1)])
def test_eccm_raises_undisturbed_sensor_quality(distance, gained):
    assert quality(near(field(), FRIEND, distance), (FRIEND, ECCM)) == pytest.approx(gained, abs=1e-5)


def test_eccm_compensates_ecm():
    s = near(near(field(), FOE, 10), FRIEND, 30)
    assert quality(s, (FOE, ECM), (FRIEND, ECCM)) == pytest.approx(1 - 0.85 * 0.8 + 0.65 * 0.4)


def test_only_the_strongest_emitter_counts():
    s = near(near(field(), FOE, 30), OTHER_FOE, 20)
    assert quality(s, (FOE, ECM), (OTHER_FOE, ECM)) == pytest.approx(1 - 0.85 * 0.6)


def test_own_eccm_does_not_raise_own_quality():
    assert quality(field(), (FRIEND, ECCM), of=FRIEND) == 1


def test_ecm_affects_only_enemies_and_eccm_only_teammates():
    s = near(near(field(), FRIEND, 20), FOE, 20)
    assert quality(s, (FRIEND, ECM)) == 1  # ECM of a teammate
    assert quality(s, (FOE, ECCM)) == 1  # ECCM of an enemy
    assert quality(s, (FRIEND, ECM), of=FOE) == 0.25  # at zero distance
    assert quality(s, (FRIEND, ECM), of=FRIEND) == 1


@pytest.mark.parametrize("hull", ["light", "medium", "heavy"])
def test_only_scouts_emit(hull):
    s = battle(("medium", hull), (hull, "scout")).place(0, 0.5, 0.5).place(1, 5.5, 0.5).place(2, 0.5, 6.5)
    assert sense(s, (1, ECCM), (2, ECM)).quality.tolist() == [[1, 1, 1, 1]]


def test_battle_without_scouts_has_no_jamming():
    s = duel(8, "heavy", "medium").set(1, hp=0)
    assert sense(s).quality.tolist() == [[1, 0.25]]


@pytest.mark.parametrize("state", [{"hp": 0}, {"heat": 80}, {"fallen": 10}])
def test_emitter_of_a_mech_that_does_not_run_has_no_effect(state):
    s = near(near(field(), FOE, 10), FRIEND, 10)
    assert quality(s.set(FOE, **state), (FOE, ECM)) == 1
    assert quality(s.set(FRIEND, **state), (FRIEND, ECCM)) == 1


@pytest.mark.parametrize(("state", "left"), [({"hp": 0}, 0.25), ({"heat": 101}, 0.25), ({"fallen": 10}, 1.325)])
def test_dead_and_shut_down_mechs_have_blind_quality(state, left):
    s = near(field().set(VIEWER, **state), FRIEND, 25)
    assert quality(s, (FRIEND, ECCM)) == pytest.approx(left)


# Heat: a scout dissipates 13 per second.


@pytest.mark.usual
@pytest.mark.parametrize(
    ("hull", "secondary", "heat"),
    [("scout", 0.0, 37), ("scout", 0.5, 40), ("scout", 0.51, 39), ("medium", 0.5, 39)],  # a medium dissipates 11
)
def test_ecm_and_eccm_heat_their_mech(hull, secondary, heat):
    s = duel(25, hull, "medium").set(0, heat=50)
    s.run(s.orders((0, Act.SECONDARY, secondary)), 20)
    assert s.value("heat", 0) == pytest.approx(heat, abs=1e-3)


@pytest.mark.usual
@pytest.mark.parametrize("state", [{"fallen": 60}, {"heat": 120}])
def test_emitter_of_a_mech_that_does_not_run_adds_no_heat(state):
    s = duel(25, "scout", "medium").set(0, heat=50)
    s.set(0, **state)
    before = s.value("heat", 0)
    s.run(s.orders((0, Act.SECONDARY, ECM)), 20)
    assert s.value("heat", 0) == pytest.approx(before - 13, abs=1e-3)


def test_disabled_ewar_has_no_jamming():
    s = battle(("medium",), ("scout",), ewar=False).place(0, 0.5, 0.5).place(1, 5.5, 0.5).set(1, heat=50)
    assert sense(s, (1, ECM)).quality.tolist() == [[1, 1]]
    assert s.run(s.orders((1, Act.SECONDARY, ECM))).value("heat", 1) == pytest.approx(50 - 0.65)
