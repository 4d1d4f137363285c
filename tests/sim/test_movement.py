"""Walking, turning, jets and gravity, with collisions with terrain and other hulls."""

import dataclasses
import math

import pytest
import torch
from builders import duel, scene
from first_catalog import HULLS, SMALL

from echelon.rules.actions import Act
from echelon.rules.catalog import Hull, Material
from echelon.sim import step

pytestmark = pytest.mark.quick

FORWARD = (0, Act.FORWARD, 1.0)
DAMPING = 0.98
FAR_RED = (38.0, 38.0)


def team(*blue):
    """Return a scene with blue mechs for a test to place, and a red one in a far corner."""
    s = scene(dataclasses.replace(SMALL, blue=blue, red=("medium",)))
    return s.place(len(blue), *FAR_RED)


# Alone on open ground


@pytest.mark.usual
@pytest.mark.parametrize("hull", list(Hull))
def test_each_class_walks_at_its_speed(hull):
    s = duel(25, hull.name.lower(), "medium")
    s.run(s.orders(FORWARD), 20)
    speed = HULLS[hull].max_speed_vox_per_s * DAMPING
    assert s.pos(0)[0] == pytest.approx(10.5 + speed, abs=1e-4)
    assert s.vel(0) == pytest.approx([speed, 0, 0], abs=1e-5)
    assert s.bottom(0) == pytest.approx(0)


def test_strafing_positive_is_to_the_left():
    s = duel(25, "medium", "scout")
    s.run(s.orders((0, Act.STRAFE, 0.5)))
    assert s.vel(0) == pytest.approx([0, 0.5 * 5.5 * DAMPING, 0], abs=1e-5)


def test_diagonal_throttle_is_not_faster():
    s = duel(25, "medium", "scout")
    s.run(s.orders(FORWARD, (0, Act.STRAFE, 1.0)))
    assert math.hypot(*s.vel(0)[:2]) == pytest.approx(5.5 * DAMPING)


def test_lost_legs_reduce_the_speed():
    s = duel(25, "medium", "scout").set(0, leg_hp=0)
    s.run(s.orders(FORWARD))
    assert s.vel(0)[0] == pytest.approx(5.5 * 0.4 * DAMPING)


@pytest.mark.usual
@pytest.mark.parametrize("hull", list(Hull))
def test_each_class_turns_at_its_rate(hull):
    s = duel(25, hull.name.lower(), "medium")
    s.run(s.orders((0, Act.YAW_RATE, 1.0)), 20)
    assert s.value("yaw", 0) == pytest.approx(HULLS[hull].yaw_rate_rad_per_s, abs=1e-4)


def test_yaw_wraps():
    s = duel(25, "medium", "scout").set(0, yaw=math.pi - 0.01)
    s.run(s.orders((0, Act.YAW_RATE, 1.0)))
    assert s.value("yaw", 0) == pytest.approx(-math.pi + 0.04, abs=1e-5)


def test_a_mech_walks_where_it_faces_after_turning():
    s = duel(25, "medium", "scout")
    s.run(s.orders(FORWARD, (0, Act.YAW_RATE, 1.0)))
    assert s.vel(0)[:2] == pytest.approx([5.39 * math.cos(0.05), 5.39 * math.sin(0.05)])


def test_zero_throttle_stops_in_one_substep():
    s = duel(25, "medium", "scout")
    s.run(s.orders(FORWARD), 5).run(s.orders())
    assert s.vel(0) == [0, 0, 0]


def test_dead_mechs_do_not_move():
    s = duel(25, "medium", "scout").place(0, 10.5, 20.5, bottom=2).set(0, hp=0)
    s.state.mechs.vel[0, 0] = torch.tensor([3.0, 0, 0])
    s.run(s.orders(FORWARD), 3)
    assert s.pos(0) == [10.5, 20.5, 3.5] and s.vel(0) == [0, 0, 0]


# Jets and gravity


def test_jets_lift_and_heat():
    s = duel(25, "scout", "medium")
    s.run(s.orders((0, Act.VERTICAL, 1.0)))
    assert s.vel(0)[2] == pytest.approx((18 - 9.81) * 0.05 * DAMPING)
    assert s.bottom(0) == pytest.approx((18 - 9.81) * 0.05 * DAMPING * 0.05, abs=1e-5)
    assert s.value("heat", 0) == pytest.approx(0.75)  # 15 per second; a cold mech dissipates nothing


def test_half_thrust_adds_half_the_heat():
    s = duel(25, "light", "medium").set(0, heat=50)
    s.run(s.orders((0, Act.VERTICAL, 0.5)))
    assert s.value("heat", 0) == pytest.approx(50 - 0.6 + 0.375)


def test_lost_legs_halve_the_jets():
    s = duel(25, "scout", "medium").place(0, 10.5, 20.5, bottom=5).set(0, leg_hp=0)
    s.run(s.orders((0, Act.VERTICAL, 1.0)))
    assert s.vel(0)[2] == pytest.approx((9 - 9.81) * 0.05 * DAMPING)


def test_a_mech_without_jets_neither_flies_nor_heats():
    s = duel(25, "medium", "scout")
    s.run(s.orders((0, Act.VERTICAL, 1.0)), 5)
    assert s.bottom(0) == 0 and s.value("heat", 0) == 0


@pytest.mark.usual
def test_jets_stop_at_the_ceiling():
    s = duel(25, "scout", "medium").place(0, 10.5, 20.5, bottom=14)
    s.run(s.orders((0, Act.VERTICAL, 1.0)), 20)
    assert s.pos(0)[2] == pytest.approx(16 - 0.9) and s.vel(0)[2] == 0


@pytest.mark.usual
def test_falling_ends_on_the_ground():
    s = duel(25, "medium", "scout").place(0, 10.5, 20.5, bottom=4)
    s.run(s.orders())
    assert s.vel(0)[2] == pytest.approx(-9.81 * 0.05 * DAMPING)
    s.run(s.orders(), 25)
    assert s.bottom(0) == pytest.approx(0) and s.vel(0)[2] == 0


# Terrain


@pytest.mark.usual
def test_a_mech_steps_onto_a_block_one_high():
    s = duel(25, "medium", "scout", (13, 20, 15, 26, 0, 1, Material.SOLID))
    s.run(s.orders(FORWARD), 20)
    assert s.pos(0)[0] == pytest.approx(10.5 + 5.39, abs=1e-4)  # no loss of speed
    assert 1.0 <= s.bottom(0) < 1.03


def test_step_up_raises_by_step_up_vox():
    s = duel(25, "medium", "scout", (12, 20, 15, 26, 0, 1, Material.SOLID))  # 0.25 ahead of the hull, 0.27 a substep
    s.run(s.orders(FORWARD))
    # The mech rises by 1.1, then falls for one substep: 9.81 * 0.05 * 0.98 * 0.05.
    assert s.bottom(0) == pytest.approx(1.1 - 0.0240345, abs=1e-5)


def test_a_mech_does_not_step_while_it_falls():
    s = duel(25, "medium", "scout", (12, 20, 15, 26, 0, 6, Material.SOLID)).place(0, 10.5, 20.5, bottom=5.5)
    s.state.mechs.vel[0, 0, 2] = -1.0  # -1.46 when it moves
    s.run(s.orders(FORWARD))
    assert s.pos(0)[0] == 10.5 and s.vel(0)[0] == 0


@pytest.mark.usual
def test_a_block_two_high_stops_a_mech():
    s = duel(25, "medium", "scout", (13, 20, 15, 26, 0, 2, Material.SOLID))
    s.run(s.orders(FORWARD), 20)
    assert 13 - 1.25 - 5.39 * 0.05 < s.pos(0)[0] <= 13 - 1.25
    assert s.vel(0)[0] == 0 and s.bottom(0) == pytest.approx(0)


def test_mech_slides_along_a_wall():
    s = duel(25, "medium", "scout", (12, 20, 0, 40, 0, 3, Material.SOLID)).set(0, yaw=math.pi / 4)
    s.run(s.orders(FORWARD), 10)
    assert s.pos(0)[0] <= 10.75 and s.vel(0)[0] == 0
    assert s.pos(0)[1] == pytest.approx(20.5 + 5.39 * math.sqrt(0.5) * 0.5, abs=1e-4)


@pytest.mark.usual
@pytest.mark.parametrize("material", [Material.GLASS, Material.REINFORCED, Material.SOLID_DEBRIS])
def test_solid_materials_stop_a_mech(material):
    s = duel(25, "medium", "scout", (13, 14, 15, 26, 0, 3, material))
    s.run(s.orders(FORWARD), 20)
    assert s.pos(0)[0] <= 11.75


@pytest.mark.usual
@pytest.mark.parametrize("material", [Material.FOLIAGE, Material.DEBRIS_FIELD, Material.LAVA, Material.DIRT])
def test_mech_walks_through_materials_that_are_not_solid(material):
    s = duel(25, "medium", "scout", (13, 14, 15, 26, 0, 3, material))
    s.run(s.orders(FORWARD), 20)
    assert s.pos(0)[0] == pytest.approx(15.89, abs=1e-4)


@pytest.mark.usual
def test_a_step_needs_room_above():
    s = duel(25, "medium", "scout", (13, 20, 15, 26, 0, 1, Material.SOLID), (13, 20, 15, 26, 4, 5, Material.SOLID))
    s.run(s.orders(FORWARD), 20)  # the gap is 3 high from z = 1, the raised hull reaches 4.1
    assert s.pos(0)[0] <= 11.75


@pytest.mark.usual
def test_a_step_ends_below_the_ceiling():
    ground, ledge = (5, 13, 15, 26, 0, 12, Material.SOLID), (13, 20, 15, 26, 0, 13, Material.SOLID)
    s = duel(25, "medium", "scout", ground, ledge).place(
        0, 10.5, 20.5, bottom=12
    )  # raised, its top would be at 16.1 of 16
    s.run(s.orders(FORWARD), 20)
    assert s.pos(0)[0] <= 11.75


@pytest.mark.usual
def test_a_wide_hull_does_not_fit_a_narrow_gap():
    walls = ((14, 15, 0, 19, 0, 5, Material.SOLID), (14, 15, 22, 40, 0, 5, Material.SOLID))  # a gap of 3
    wide, narrow = duel(25, "heavy", "medium", *walls), duel(25, "medium", "medium", *walls)
    assert wide.run(wide.orders(FORWARD), 60).pos(0)[0] <= 14 - 1.75
    assert narrow.run(narrow.orders(FORWARD), 60).pos(0)[0] > 20


@pytest.mark.usual
def test_a_mech_falls_off_a_ledge():
    s = duel(25, "medium", "scout", (5, 13, 15, 26, 0, 4, Material.SOLID)).place(0, 10.5, 20.5, bottom=4)
    s.run(s.orders(FORWARD), 13)  # its rear edge leaves the ledge at x = 14.25, after 0.7 s
    assert s.bottom(0) == pytest.approx(4, abs=0.03)
    s.run(s.orders(FORWARD), 27)
    assert s.bottom(0) == pytest.approx(0)


@pytest.mark.usual
@pytest.mark.parametrize(
    ("x", "y", "yaw", "axis", "edge"),
    [(35, 20, 0, 0, 38.75), (5, 20, math.pi, 0, 1.25), (30, 35, math.pi / 2, 1, 38.75)],
)
def test_a_mech_stays_on_the_map(x, y, yaw, axis, edge):
    s = duel(25, "medium", "scout").place(1, 5, 5).place(0, x, y, yaw=yaw)
    s.run(s.orders(FORWARD), 40)
    assert s.pos(0)[axis] == pytest.approx(edge)
    assert s.vel(0)[axis] == 0


# Other hulls


def test_a_hull_does_not_enter_another():
    s = duel(2.6, "medium", "medium")
    s.run(s.orders(FORWARD))
    assert s.pos(0)[0] == 10.5 and s.vel(0)[0] == 0  # 0.27 would not fit into the gap of 0.1
    assert s.pos(1)[0] == pytest.approx(13.1)


def test_mech_does_not_enter_a_place_that_another_leaves_in_this_substep():
    s = team("medium", "medium").place(0, 10.5, 20.5).place(1, 13.0, 20.5)
    s.run(s.orders(FORWARD, (1, Act.FORWARD, 1.0)))
    assert s.pos(0)[0] == 10.5
    assert s.pos(1)[0] == pytest.approx(13.0 + 0.2695)


def gap_race(priority):
    """Let two mediums, 0.5 vox apart, walk at each other; there is room for one of their two steps of 0.27 vox."""
    s = duel(3.0, "medium", "medium")
    draws = dataclasses.replace(s.draws(), priority=torch.tensor([priority]))
    s.state = step.substep(s.state, s.orders(FORWARD, (1, Act.FORWARD, 1.0)), draws, s.sim_model)
    return s.pos(0)[0] > 10.5, s.pos(1)[0] < 13.5


def test_mech_with_lower_priority_stays():
    assert gap_race([0.9, 0.1]) == (True, False)
    assert gap_race([0.1, 0.9]) == (False, True)
    assert gap_race([0.5, 0.5]) == (True, False)  # ties to the lower index


def test_mech_yields_to_a_higher_priority_that_is_blocked():
    # Mech 1, which stands still, blocks mech 0 of highest priority. The candidate of mech 2 overlaps that of mech 0.
    s = team("medium", "medium", "medium").place(0, 10.5, 20.5).place(1, 10.5 + 2.6, 18.5)
    s.place(2, 10.5 + 3.0, 22.6, yaw=math.pi)
    s.run(s.orders(FORWARD, (2, Act.FORWARD, 1.0)))
    assert s.pos(0)[0] == 10.5 and s.pos(2)[0] == 13.5


def test_both_stay_if_both_candidates_overlap_the_other():
    s = duel(2.6, "medium", "medium")
    s.run(s.orders(FORWARD, (1, Act.FORWARD, 1.0)), 5)
    assert [s.pos(n)[0] for n in (0, 1)] == pytest.approx([10.5, 13.1])


@pytest.mark.usual
def test_mech_cannot_step_onto_a_teammate():
    s = team("medium", "scout").place(0, 10.5, 20.5).place(1, 12.5, 20.5)
    s.run(s.orders(FORWARD), 20)
    assert s.bottom(0) == pytest.approx(0) and s.pos(0)[0] < 12.5 - 0.6 - 1.25 + 1e-4


@pytest.mark.usual
def test_mech_that_falls_onto_a_hull_stays_above_it():
    s = team("medium", "medium").place(0, 10.5, 20.5, bottom=4.0).place(1, 10.5, 20.5)
    s.run(s.orders(), 40)
    assert 3.0 <= s.bottom(0) < 3.4 and s.vel(0)[2] == 0 and s.bottom(1) == 0


@pytest.mark.usual
def test_dead_mechs_do_not_block():
    s = team("medium", "medium").place(0, 10.5, 20.5).place(1, 13.5, 20.5).set(1, hp=0)
    s.run(s.orders(FORWARD), 20)
    assert s.pos(0)[0] == pytest.approx(15.89, abs=1e-4)


def test_hulls_slide_past_each_other():
    s = team("medium", "medium").place(0, 10.5, 20.5, yaw=math.pi / 4).place(1, 13.1, 20.5)
    s.run(s.orders(FORWARD), 10)
    assert s.pos(0)[0] < 10.75 and s.pos(0)[1] > 22
