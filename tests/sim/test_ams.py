"""Anti-missile systems: red heavy 1 guards against the missiles of blue heavy 0."""

import pytest
from builders import battle, duel
from first_catalog import Timer, Weapon

pytestmark = pytest.mark.quick

HITS, MISSES = 0.59, 0.6
"""Samples just below the success chance and equal to it."""
STILL = (0.0, 12.0, 0.0)


def threatened(above=5.4, **guard):
    """Return a scene with a missile of blue 0 at (20.5, 20.5), `above` the centre of its target red 1, flying north."""
    s = duel(10, "heavy", "heavy").set(1, **guard)
    return s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 2.0 + above), STILL, target=1)


def flies(s, mech=0, which=0):
    return s.shot(Weapon.MISSILE, mech, which)[2] > 0


@pytest.mark.usual
@pytest.mark.parametrize(("luck", "destroyed"), [(0.0, True), (HITS, True), (MISSES, False), (0.99, False)])
def test_interception_succeeds_with_the_catalog_chance(luck, destroyed):
    s = threatened().wait(ams=luck)
    assert flies(s) != destroyed
    assert s.counted("intercepts", 1) == destroyed
    assert s.state.mechs.cooldown[0, 1].tolist() == [0, 0, 0, 0, 20]  # set by each try
    assert s.state.mechs.cooldown[0, 0, Timer.AMS] == 0


@pytest.mark.parametrize(("above", "tries"), [(5.49, True), (5.51, False)])
def test_ams_range_limits_interception(above, tries):
    s = threatened(above).wait(ams=0.0)
    assert flies(s) != tries
    assert (s.state.mechs.cooldown[0, 1, Timer.AMS] == 20) == tries


def test_ams_acts_before_the_missile_flies():
    s = threatened(above=-0.5).throw(Weapon.MISSILE, 0, (18.2, 20.5, 2.0), (12.0, 0.0, 0.0), target=1)
    assert s.wait(ams=HITS).value("hp", 1) == 200
    s.throw(Weapon.MISSILE, 0, (18.2, 20.5, 2.0), (12.0, 0.0, 0.0), target=1)
    assert s.wait(ams=HITS).value("hp", 1) == 160  # the AMS is on cooldown


def test_a_destroyed_missile_does_not_burst():
    s = battle(("heavy",), ("heavy", "scout")).place(0, 5.5, 5.5).place(1, 20.5, 20.5).place(2, 20.5, 24.5)
    s.throw(Weapon.MISSILE, 0, (20.5, 24.5, 2.2), (0.0, 0.0, -12.0), target=2)
    assert s.wait(ams=[1.0, 0.0, 1.0]).value("hp", 2) == 60


@pytest.mark.usual
def test_ams_cooldown_limits_tries_per_second():
    s = threatened()
    tries = []
    for _ in range(41):
        s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 7.0), STILL, target=1).wait(ams=0.0)
        tries.append(not flies(s))
    assert [i for i, tried in enumerate(tries) if tried] == [0, 20, 40]
    assert s.counted("intercepts", 1) == 3


@pytest.mark.parametrize("guard", [{"hp": 0}, {"heat": 200}, {"fallen": 20}, {"cooldown": 5}])
def test_only_a_running_mech_with_a_ready_ams_tries(guard):
    s = threatened(**guard).wait(ams=0.0)
    assert flies(s) and s.counted("intercepts", 1) == 0


def test_a_try_costs_no_heat_and_needs_no_trigger():
    assert threatened().wait(ams=0.0).value("heat", 1) == 0


@pytest.mark.parametrize("hull", ["scout", "light", "medium"])
def test_only_heavies_carry_ams(hull):
    s = duel(10, "heavy", hull)
    s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 5.0), STILL, target=1).wait(ams=0.0)
    assert flies(s)


def test_own_missiles_are_not_intercepted():
    s = duel(10, "heavy", "heavy").throw(Weapon.MISSILE, 1, (20.5, 20.5, 7.0), STILL, target=0).wait(ams=0.0)
    assert flies(s, mech=1) and not s.state.tally.intercepts.any()


def test_missiles_aimed_at_teammates_are_intercepted():
    s = battle(("heavy",), ("scout", "heavy")).place(0, 5.5, 5.5).place(1, 35.5, 20.5).place(2, 20.5, 20.5)
    s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 7.0), STILL, target=1).wait(ams=0.0)
    assert not flies(s) and s.counted("intercepts", 2) == 1


@pytest.mark.parametrize("weapon", [Weapon.GAUSS, Weapon.SMOKE])
def test_only_missiles_are_shot_down(weapon):
    s = duel(10, "heavy", "heavy").throw(weapon, 0, (20.5, 20.5, 7.0), STILL).wait(ams=0.0)
    assert s.shot(weapon, 0)[2] > 0 and not s.state.tally.intercepts.any()


def two_missiles(*heights):
    """Return a scene with two missiles of blue 0 above red 1."""
    s = duel(10, "heavy", "heavy")
    for which, height in enumerate(heights):
        s.throw(Weapon.MISSILE, 0, (20.5, 20.5, height), STILL, target=1, which=which)
    return s


@pytest.mark.parametrize(("heights", "down"), [((7.0, 6.9), 1), ((6.9, 7.0), 0), ((7.0, 7.0), 0)])
def test_nearest_missile_is_intercepted_ties_go_to_the_first_slot(heights, down):
    s = two_missiles(*heights).wait(ams=0.0)
    assert [flies(s, which=which) for which in (0, 1)] == [down != 0, down != 1]


def test_ties_go_to_the_first_shooter():
    s = battle(("heavy", "heavy"), ("heavy",)).place(0, 5.5, 5.5).place(1, 5.5, 15.5).place(2, 20.5, 20.5)
    s.throw(Weapon.MISSILE, 1, (20.5, 20.5, 7.0), STILL, target=2, which=0)
    s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 7.0), STILL, target=2, which=1).wait(ams=0.0)
    assert not flies(s, mech=0, which=1) and flies(s, mech=1, which=0)


def guarded_twice():
    """Return a scene with red 1 and red 2, 4 vox apart, and a missile of blue 0 between and above them."""
    s = battle(("heavy",), ("heavy", "heavy")).place(0, 5.5, 5.5).place(1, 20.5, 18.5).place(2, 20.5, 22.5)
    return s.throw(Weapon.MISSILE, 0, (20.5, 20.5, 6.0), STILL, target=1)


@pytest.mark.parametrize(
    ("luck", "credit"),
    [([1.0, HITS, HITS], [0, 1, 0]), ([1.0, HITS, MISSES], [0, 1, 0]), ([1.0, MISSES, HITS], [0, 0, 1])],
)
def test_an_intercept_is_credited_once(luck, credit):
    s = guarded_twice().wait(ams=luck)
    assert not flies(s)
    assert [s.counted("intercepts", n) for n in range(3)] == credit
    assert s.state.mechs.cooldown[0, :, Timer.AMS].tolist() == [0, 20, 20]  # both tried


def test_two_ams_each_destroy_their_nearest_missile():
    s = guarded_twice().throw(Weapon.MISSILE, 0, (20.5, 17.5, 4.5), STILL, target=1, which=1)
    s.throw(Weapon.MISSILE, 0, (20.5, 23.5, 4.5), STILL, target=1, which=0).wait(ams=0.0)
    assert [flies(s, which=which) for which in (0, 1)] == [False, False]
    assert [s.counted("intercepts", n) for n in (1, 2)] == [1, 1]
