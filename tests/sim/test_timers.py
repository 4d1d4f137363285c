"""Timers are whole substeps and stop at 0."""

from builders import duel

from echelon.catalog import Timer
from echelon.sim.timers import count_down


def test_every_timer_counts_down_to_zero():
    state = duel(20, "medium", "scout").set(0, cooldown=2, suppressed=1).state
    seen = []
    for _ in range(3):
        state = count_down(state)
        seen.append((*state.mechs.cooldown[0, 0].tolist(), state.mechs.suppressed[0, 0].item()))
    assert seen == [(1, 1, 0), (0, 0, 0), (0, 0, 0)]


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
