"""Sensing between mechs, and reports to packmates."""

import math

import pytest
import torch
from builders import duel
from reading import ECCM, ECM, WALL, column, contact, ego, emits, look, sensed, shown, team

from echelon.rules.catalog import Material

pytestmark = pytest.mark.quick

# Lines of sight


def test_clear_line_senses_within_sight_range():
    assert shown(duel(25, "medium", "medium"), 0) == [1]
    s = team(("medium",), ("medium",), sight_range_vox=20.0).place(0, 10.5, 20.5)
    assert shown(s.place(1, 30.5, 20.5), 0) == [1]
    assert shown(s.place(1, 30.6, 20.5), 0) == []


def test_wall_hides():
    s = duel(25, "medium", "medium", WALL)
    assert shown(s, 0) == shown(s, 1) == []
    assert not look(s)["contacts"].any()


@pytest.mark.parametrize(("beside", "hidden"), [(3.99, True), (4.01, False)])
def test_cloud_near_the_line_hides(beside, hidden):
    s = duel(25, "medium", "medium").smoke(0, 23, 20.5 + beside, 1.5)
    assert (shown(s, 0), shown(s, 1)) == (([], []) if hidden else ([1], [0]))


def test_dead_mechs_neither_sense_nor_are_sensed():
    s = duel(8, "medium", "medium").set(1, hp=0)
    assert shown(s, 0) == shown(s, 1) == []


def test_full_observation_shows_every_living_mech():
    s = team(("medium",) * 2, ("medium",) * 2, WALL, observation_mode="full").smoke(0, 10.5, 20.5, 1.5)
    s.place(0, 10.5, 20.5).place(1, 5, 5).place(2, 35.5, 20.5).place(3, 30.5, 20.5)
    assert shown(s, 0) == [3, 2, 1]
    assert column(s, "intel", 0) == [0, 0, 0]
    assert shown(s.set(3, hp=0), 0) == [2, 1]


# Radar: 14 vox * quality * suite factor


@pytest.mark.parametrize(
    ("hull", "command", "reach"),
    [
        ("scout", False, 21.0),  # 14 * 1.5
        ("light", False, 16.8),  # 14 * 1.2
        ("medium", False, 14.0),
        ("heavy", False, 11.2),  # 14 * 0.8
        ("light", True, 14.0),  # pack command
        ("medium", True, 14.0),  # squad command
    ],
)
def test_radar_sees_through_walls_as_far_as_the_suite_allows(hull, command, reach):
    s = team((hull,), (hull,), WALL, command_suites=command).place(0, 10.5, 20.5)
    assert shown(s.place(1, 10.5 + reach - 0.01, 20.5), 0) == [1]
    assert shown(s.place(1, 10.5 + reach + 0.01, 20.5), 0) == []


def test_radar_sees_through_smoke():
    assert shown(duel(13.9, "medium", "medium").smoke(0, 16, 20.5, 1.5), 0) == [1]
    assert shown(duel(14.1, "medium", "medium").smoke(0, 16, 20.5, 1.5), 0) == []


def test_shut_down_mech_has_reduced_radar():
    wall = (12, 13, 10, 30, 0, 8, Material.SOLID)
    for range_vox, seen in ((3.5, [1]), (3.51, [])):
        s = duel(range_vox, "medium", "medium", wall).set(0, heat=150)
        assert shown(s, 0) == seen
        assert shown(s, 1) == [0]


# Sensor quality: clip(1 - 0.85 jam + 0.65 eccm, 0.25, 1.5); each emitter fades with 1 - d / 50


def jammed(*orders, far=25.0, near=20.0):
    """Return quality and jam of blue medium 0, with a red scout (2) `far` away and its own scout (1) `near`."""
    s = team(("medium", "scout"), ("scout",)).place(0, 5, 5)
    s.place(1, 5 + near, 5, bottom=0.6).place(2, 5, 5 + far, bottom=0.6)  # centres at one height
    return pytest.approx((ego(s, "sensor_quality", 0, *orders)[0] * 1.5, ego(s, "jam", 0, *orders)[0]))


@pytest.mark.parametrize(
    ("orders", "quality", "jam"),
    [
        ((), 1.0, 0),
        ((emits(2, ECM),), 1 - 0.85 * 0.5, 0.5),  # 1 - 25 / 50
        ((emits(1, ECCM),), 1 + 0.65 * 0.6, 0),  # 1 - 20 / 50
        ((emits(2, ECM), emits(1, ECCM)), 1 - 0.425 + 0.39, 0.5),
        ((emits(1, ECM), emits(2, ECCM)), 1.0, 0),  # own ECM and enemy ECCM have no effect on the mech
    ],
)
def test_emitters_jam_and_clear_sensors(orders, quality, jam):
    assert jammed(*orders) == (quality, jam)


def test_sensor_quality_is_clamped():
    assert jammed(emits(2, ECM), far=2.5) == (0.25, 0.95)  # not 1 - 0.85 * 0.95 = 0.19
    assert jammed(emits(1, ECCM), near=5) == (1.5, 0)  # not 1 + 0.65 * 0.9 = 1.585


def test_only_the_strongest_jammer_counts():
    s = team(("medium",), ("scout", "scout")).place(0, 5, 5)
    s.place(1, 30, 5, bottom=0.6).place(2, 5, 25, bottom=0.6)  # 25 and 20 away: 0.5 and 0.6
    assert ego(s, "jam", 0, emits(1, ECM), emits(2, ECM)) == pytest.approx([0.6])


def test_eccm_clears_others_but_not_its_own_mech():
    s = team(("scout", "scout"), ("medium",)).place(0, 5, 5).place(1, 5, 15)
    assert ego(s, "sensor_quality", 0, emits(0, ECCM)) == pytest.approx([1 / 1.5])
    assert ego(s, "sensor_quality", 1, emits(0, ECCM)) == [1]  # 1 + 0.65 * 0.8 = 1.52, at most 1.5


@pytest.mark.parametrize("trouble", [{"heat": 80}, {"fallen": 9}, {"hp": 0}])
def test_only_a_running_scout_jams(trouble):
    s = team(("medium",), ("scout",)).place(0, 5, 5).place(1, 15, 5)
    assert ego(s, "jam", 0, emits(1, ECM)) != [0]
    assert ego(s.set(1, **trouble), "jam", 0, emits(1, ECM)) == [0]


@pytest.mark.parametrize(("emitter", "quality"), [((2, ECM), 0.575), ((1, ECCM), 1.39)])
def test_jamming_and_clearing_change_radar_range(emitter, quality):
    """Red medium 3 is behind a wall; blue medium 0 has a radar range of 14 * quality: 8.05 or 19.46."""
    wall = (7, 8, 0, 20, 0, 8, Material.SOLID)
    s = team(("medium", "scout"), ("scout", "medium"), wall).place(0, 5, 5)
    s.place(1, 5, 25, bottom=0.6).place(2, 5, 30, bottom=0.6)
    reach = 14 * quality
    for range_vox, seen in ((reach - 0.01, True), (reach + 0.01, False)):
        s.place(3, 5 + range_vox, 5)
        assert (3 in sensed(s, 0, emits(*emitter))) == seen


# Heat: a hostile that is hot or emits


@pytest.mark.parametrize(("heat", "seen"), [(80.5, [1]), (80.0, [])])
def test_hot_hostile_is_sensed_through_walls(heat, seen):
    assert shown(duel(25, "medium", "medium", WALL).set(1, heat=heat), 0) == seen


@pytest.mark.parametrize(("emission", "seen"), [(ECM, [1]), (ECCM, [1]), (0.0, []), (-1.0, [])])
def test_emitting_hostile_is_sensed_through_walls(emission, seen):
    assert shown(duel(25, "medium", "scout", WALL), 0, emits(1, emission)) == seen


@pytest.mark.parametrize("trouble", [{"heat": 75.1}, {"fallen": 9}])
def test_emitter_of_a_mech_not_running_is_not_sensed(trouble):
    s = duel(25, "medium", "scout", WALL).set(1, **trouble)
    hot = trouble.get("heat", 0) > 60  # 80 % of 75: sensed by its heat
    assert shown(s, 0, emits(1, ECM)) == ([1] if hot else [])


@pytest.mark.parametrize("where", [16.0, 30.0])
def test_smoke_hides_heat(where):
    s = duel(25, "medium", "scout", WALL).set(1, heat=70)
    assert shown(s, 0, emits(1, ECM)) == [1]
    assert shown(s.smoke(1, where, 20.5, 1.0), 0, emits(1, ECM)) == []


def test_hot_comrade_is_not_sensed_by_heat():
    s = team(("medium", "scout"), ("scout",), WALL).place(0, 10.5, 20.5).place(1, 35.5, 20.5).place(2, 5, 35)
    assert shown(s.set(1, heat=74), 0, emits(1, ECM)) == [2]


# Paint


def painted_behind_the_wall(jammer_at):
    """Red medium 3, painted by blue 1, is behind a wall; red scout 2 jams blue 0 and 1 at distance `jammer_at`."""
    s = team(("medium", "medium"), ("scout", "medium"), WALL).place(0, 3.5, 20.5).place(1, 3.5, 24)
    return s.place(2, 3.5 + jammer_at, 20.5, bottom=0.6).place(3, 28.5, 20.5).paint(3, painter=1)


@pytest.mark.parametrize(("jammer_at", "seen"), [(32.36, True), (32.34, False)])
def test_paint_is_sensed_through_walls_at_sufficient_quality(jammer_at, seen):
    """1 - 0.85 * (1 - d / 50) is 0.70 at d = 32.353. Below that quality, the packmate's paint is still intel."""
    s = painted_behind_the_wall(jammer_at)
    assert 3 in shown(s, 0, emits(2, ECM))
    assert (3 in sensed(s, 0, emits(2, ECM))) == seen


def test_paint_is_intel_if_no_packmate_has_the_quality():
    """The jammer is at distance 5 from both: the painter has quality 0.25 too."""
    s = painted_behind_the_wall(5)
    for viewer in (0, 1):
        assert 3 in shown(s, viewer, emits(2, ECM)) and 3 not in sensed(s, viewer, emits(2, ECM))


def test_paint_is_sensed_by_the_painters_pack_only():
    s = team(("medium",) * 6, ("medium",), WALL).place(6, 35.5, 20.5)
    for n in range(6):
        s.place(n, 5 + n, 20.5)
    s.paint(6, painter=5)  # of the second pack, alone in it
    assert 6 in shown(s, 5) and 6 not in shown(s, 0)
    s.state.mechs.paint[:] = 0
    assert 6 not in shown(s, 5)


# Intel


def outpost(*red, packmates=True):
    """Blue heavy 0 is west of the wall; its spotter east of it at (38, 24) senses all red mechs at the given x."""
    blue = ("heavy", "scout") if packmates else ("heavy",) + ("light",) * 4 + ("scout",)
    s = team(blue, ("medium",) * len(red), WALL).place(0, 2.5, 20.5).place(len(blue) - 1, 38, 24)
    for k in range(1, len(blue) - 1):
        s.place(k, 2.5, 20.5 - k)
    for k, x in enumerate(red):
        s.place(len(blue) + k, x, 20.5)
    return s


def test_intel_is_sensed_by_a_packmate_but_not_by_the_mech():
    s = outpost(35.5, 25.5)
    assert shown(s, 0) == [3, 2] and column(s, "intel", 0) == [1, 1]  # nearest first
    assert shown(s, 1) == [2, 3] and column(s, "intel", 1) == [0, 0]  # the spotter sees them itself
    assert shown(s.set(1, hp=0), 0) == []  # dead mechs report nothing


def test_intel_is_not_shared_between_packs():
    s = outpost(35.5, packmates=False)
    assert shown(s, 5) == [6] and column(s, "intel", 5) == [0]
    assert 6 not in shown(s, 0)


def test_red_has_its_own_intel():
    s = outpost(35.5, 2.5).place(3, 2.5, 30)  # red 3 is with blue 0, red 2 with the spotter
    assert shown(s, 2) == [1, 0] and column(s, "intel", 2) == [0, 1]


def test_dead_mechs_are_no_intel():
    assert shown(outpost(35.5, 25.5).set(3, hp=0), 0) == [2]


# Acoustics: log(1 + sum of noise / (1 + d^2)) / 5


def hears(s, mech=0):
    return ego(s, "acoustics", mech)


def moving(s, mech, speed):
    s.state.mechs.vel[:, mech] = torch.tensor([0.0, speed, 0.0])
    return s


@pytest.mark.parametrize(
    ("x", "y", "quadrant"), [(23, 20, 0), (20, 23, 1), (17, 20, 2), (20, 17, 3), (22.5, 21.65, 0), (18.35, 22.5, 1)]
)
def test_noise_is_in_its_quadrant(x, y, quadrant):
    """A medium at 4 vox/s has noise 10; at 3 vox that is 10 / (1 + 9) = 1."""
    s = moving(team(("medium",), ("medium",)).place(0, 20, 20).place(1, x, y), 1, 4.0)
    wanted = [0.0] * 4
    wanted[quadrant] = math.log(2) / 5
    assert hears(s) == pytest.approx(wanted, abs=1e-3)  # (2.5, 1.65) is 2.995 long


def test_quadrants_turn_with_the_body():
    s = moving(team(("medium",), ("medium",)).place(0, 20, 20, yaw=math.pi / 2).place(1, 23, 20), 1, 4.0)
    assert hears(s) == pytest.approx([0, 0, 0, math.log(2) / 5], abs=1e-6)  # +x is right of +y


@pytest.mark.parametrize(("hull", "factor"), [("scout", 1.0), ("light", 1.5), ("medium", 2.5), ("heavy", 4.0)])
def test_heavier_mechs_are_louder(hull, factor):
    s = moving(team((hull,), (hull,)).place(0, 20, 20).place(1, 23, 20), 1, 2.0)
    assert hears(s)[0] == pytest.approx(math.log1p(factor * 2 / 10) / 5, abs=1e-6)


def test_noises_of_friends_and_foes_add_up_per_quadrant():
    s = team(("medium", "medium"), ("medium",)).place(0, 20, 20).place(1, 23, 20).place(2, 23, 20)
    assert hears(moving(moving(s, 1, 4.0), 2, 4.0)) == pytest.approx([math.log(3) / 5, 0, 0, 0], abs=1e-6)


@pytest.mark.parametrize(("box", "share"), [((21, 22, 10, 30, 0, 8, Material.SOLID), 0.2), (None, 1.0)])
def test_cover_muffles_noise_but_smoke_does_not(box, share):
    s = moving(team(("medium",), ("medium",), *([box] if box else [])).place(0, 20, 20).place(1, 23, 20), 1, 4.0)
    assert hears(s.smoke(0, 21, 20, 1.5)) == pytest.approx([math.log1p(share) / 5, 0, 0, 0], abs=1e-6)


def test_distance_does_not_count_as_cover():
    """A heavy at 2.5 vox/s has noise 10; at 24 vox, beyond the sight range of 20, over open ground, it is 10 / 577."""
    s = team(("heavy",), ("heavy",), sight_range_vox=20.0).place(0, 5, 20).place(1, 29, 20)
    assert hears(moving(s, 1, 2.5)) == pytest.approx([math.log1p(10 / 577) / 5, 0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("trouble", [{"hp": 0}, {"fallen": 9}])
def test_dead_and_fallen_mechs_are_silent(trouble):
    s = moving(team(("medium",), ("medium",)).place(0, 20, 20).place(1, 23, 20), 1, 4.0)
    assert hears(s) != [0] * 4
    assert hears(s.set(1, **trouble)) == [0] * 4


def test_own_noise_is_not_sensed():
    assert hears(moving(duel(25, "medium", "medium"), 0, 5.0)) == [0] * 4


def test_painted_flag_is_shown_to_the_painters_pack():
    s = team(("medium",) * 6, ("medium",)).place(6, 20, 20).paint(6, painter=5)
    assert contact(s, "painted", slot=0, viewer=5) == [1] and contact(s, "painted", slot=0, viewer=0) == [0]
    assert ego(s, "painted", 6) == [1] and ego(s, "painted", 0) == [0]
