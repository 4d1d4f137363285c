"""What weapons are aimed by."""

import math

import pytest
from builders import duel

from echelon.sim.targeting import take_aim

pytestmark = pytest.mark.quick


def test_aim_measures_centre_to_centre():
    scene = duel(8, "medium", "scout").place(1, 13.5, 24.5, bottom=12.6)  # centres at z = 1.5 and 13.5
    aim = take_aim(scene.state, scene.game)
    assert aim.ground[0, 0, 1].item() == pytest.approx(5)
    assert aim.bearing_cos[0, 0, 1].item() == pytest.approx(3)  # 5 away at cos = 3 / 5
    assert aim.distance[0, 0, 1].item() == pytest.approx(13)


@pytest.mark.parametrize(("bearing_deg", "inside"), [(0, True), (59, True), (-59, True), (61, False), (180, False)])
def test_an_arc_is_measured_on_the_ground(bearing_deg, inside):
    scene = duel(8, "medium", "medium")
    scene.set(0, yaw=math.radians(bearing_deg)).place(1, 18.5, 20.5, bottom=9.0)
    aim = take_aim(scene.state, scene.game)
    assert aim.within(math.cos(math.radians(60)))[0, 0, 0, 1].item() == inside
