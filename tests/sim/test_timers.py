"""Timers are integers in substeps and stop at 0."""

import pytest
from builders import duel
from first_catalog import Timer

from echelon.sim.timers import count_down

pytestmark = pytest.mark.quick


def test_every_timer_counts_down_to_zero():
    s = duel(20, "medium", "scout").set(0, cooldown=2, suppressed=1, under_fire=2).paint(0, painter=1, substeps=1)
    s.smoke(1, 20.0, 20.0, 2.0, ttl=2)
    seen = []
    for _ in range(3):
        s.state = count_down(s.state)
        mechs = s.state.mechs
        assert len(set(mechs.cooldown[0, 0].tolist())) == 1  # all five count down equally
        counts = (mechs.cooldown[0, 0, 0], mechs.suppressed[0, 0], mechs.under_fire[0, 0], mechs.paint[0, 0, 1])
        seen.append((*(int(count) for count in counts), int(s.state.clouds.ttl[0].max())))
    assert seen == [(1, 0, 1, 0, 1), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)]


def test_there_are_five_cooldown_timers():
    assert [timer.name for timer in Timer] == ["LASER", "MISSILE", "KINETIC", "PAINTER", "AMS"]


def test_timers_stay_integers_through_a_substep():
    scene = duel(20, "medium", "scout").set(0, cooldown=3)
    scene.run(scene.orders(), 2)
    assert scene.state.mechs.cooldown[0, 0, Timer.LASER] == 1
    assert not scene.state.mechs.cooldown.is_floating_point()
    assert not scene.state.mechs.suppressed.is_floating_point()
    assert not scene.state.mechs.fallen.is_floating_point()


def test_the_clock_counts_substeps():
    scene = duel(20, "medium", "scout")
    assert scene.run(scene.orders(), 7).state.tick.tolist() == [7]
