"""The commander of a line: selection of the active step, and the effect of each field."""

import math

import pytest
import torch

from echelon import Scene
from echelon.agents.line import LineCommander
from echelon.rules.actions import Act
from echelon.scenarios.piece import Step
from echelon.views.group_policy import GroupPolicy

RED = GroupPolicy(lambda team: team.set("action", torch.zeros((*team.shape, 26))), "red", "red")


def commander(scene: Scene, *lines):
    config = scene.scenario.config
    return LineCommander(lines, config.blue[: len(lines)], config)


def first_action(scene: Scene, *steps: Step):
    """Return the first action of the first blue mech."""
    env = scene.env(1, "cpu", seed=0)
    blue = GroupPolicy(commander(scene, steps), "blue", "blue")
    return blue(env.reset())["blue", "action"][0, 0]


def after(scene: Scene, seconds: float, *lines):
    """Return the state after some decisions in which red does nothing."""
    env = scene.env(2, "cpu", seed=0)
    blue = GroupPolicy(commander(scene, *lines), "blue", "blue")
    td = env.reset()
    for _ in range(round(seconds / env.config.rules.decision_s)):
        td = env.step_mdp(env.step(RED(blue(td))))
    return env.state


def duel(blue="medium", red="heavy", **facts) -> Scene:
    return Scene().place("blue", blue, (10, 20), **facts).place("red", red, (20, 20))


IDLE = Step(vent=True)


@pytest.mark.parametrize(
    ("step", "holds"),
    [
        (Step(), True),
        (Step(from_s=0.25), False),
        (Step(until_s=0.0), False),
        (Step(heat_above=0.5), True),
        (Step(heat_above=0.6), False),
        (Step(heat_below=0.4), False),
        (Step(range_below=10.5), True),
        (Step(range_below=9.5), False),
        (Step(range_above=10.5), False),
        (Step(target_is="known"), True),
        (Step(target_is="clear"), True),
        (Step(target_is="painted"), False),
        (Step(target="heavy", target_is="known"), True),
        (Step(target="scout", target_is="known"), False),
        (Step(target="scout", range_above=100), True),
        (Step(inside=(11, 20, 2)), True),
        (Step(inside=(13, 20, 2)), False),
    ],
)
def test_step_is_active_only_if_all_conditions_are_true(step, holds):
    action = first_action(duel(heat=0.5), step, IDLE)
    assert (action[Act.VENT] < 0) == holds


def test_steps_follow_time_and_no_step_means_no_action():
    state = after(duel(), 3.0, (Step(until_s=1.0, to=(10, 30)),))
    x, y = state.mechs.pos[0, 0, :2].tolist()
    # It turns to its target meanwhile, and the throttle turns with it.
    assert x == pytest.approx(10, abs=0.5) and y == pytest.approx(20 + 5.5 * 0.98, abs=0.2), "it walked for a second"
    assert not first_action(duel(), Step(from_s=9.0, vent=True)).any()


def test_mech_reaches_and_holds_a_point():
    state = after(duel(), 4.0, (Step(to=(14, 28), face=(14, 0)),))
    assert state.mechs.pos[0, 0, :2].tolist() == pytest.approx([14, 28], abs=0.1)
    assert state.mechs.yaw[0, 0].item() == pytest.approx(-math.pi / 2, abs=0.02)


def test_mech_keeps_a_distance():
    for keep in (6.0, 14.0):
        state = after(duel(), 4.0, (Step(keep=keep),))
        apart = state.mechs.pos[0, 0] - state.mechs.pos[0, 1]
        assert apart[:2].norm().item() == pytest.approx(keep, abs=0.4)


def test_mech_walks_around_the_target_to_its_back():
    scene = Scene().place("blue", "light", (26, 20.5)).place("red", "heavy", (20, 20), facing_deg=0)
    state = after(scene, 4.0, (Step(keep=5.0, rear=True),))
    x, y = state.mechs.pos[0, 0, :2].tolist()
    assert x == pytest.approx(15, abs=1.0) and y == pytest.approx(20, abs=1.5)
    assert state.mechs.pos[0, 1, :2].tolist() == [20, 20]


def test_named_weapons_fire_and_unguided_ones_wait_for_aim():
    held = first_action(duel(), Step(fire=("laser",)))
    assert held[Act.PRIMARY] > 0 and (held[[Act.SECONDARY, Act.TERTIARY, Act.SPECIAL]] < 0).all()
    assert first_action(duel(), Step(fire=("autocannon",)))[Act.TERTIARY] > 0
    assert first_action(duel(facing_deg=40), Step(fire=("autocannon",)))[Act.TERTIARY] < 0
    assert first_action(duel(), Step(fire=("autocannon",), face=(10, 30)))[Act.TERTIARY] < 0
    assert first_action(duel(facing_deg=90), Step(fire=("autocannon",), face=(10, 30)))[Act.TERTIARY] > 0


def test_jets_emitters_and_target_preference():
    assert first_action(duel("scout"), Step(jets=0.5))[Act.VERTICAL] == 0.5
    for emit, value in (("", -1.0), ("ecm", 0.25), ("eccm", 1.0)):
        assert first_action(duel("scout"), Step(emit=emit))[Act.SECONDARY] == value
    scene = duel().place("red", "scout", (16, 20))
    assert first_action(scene, Step())[Act.PREFER_0 : Act.SORT_CLOSEST].tolist() == [1, 0, 0, 0, 0]
    assert first_action(scene, Step(target="heavy"))[Act.PREFER_0 : Act.SORT_CLOSEST].tolist() == [0, 1, 0, 0, 0]


def test_mechs_without_steps_stand_still_and_shorter_lines_end():
    scene = Scene().place("blue", "light", (10, 10)).place("blue", "light", (10, 30)).place("red", "heavy", (30, 20))
    state = after(scene, 1.0, (Step(to=(20, 10)),))
    assert state.mechs.pos[0, 1, :2].tolist() == [10, 30] and state.mechs.pos[0, 0, 0] > 15
    state = after(scene, 1.0, (Step(until_s=0.0), Step(to=(20, 10))), (Step(to=(20, 30)),))
    assert (state.mechs.pos[:, :2, 0] > 15).all()
    assert torch.equal(state.mechs.pos[0, 0], state.mechs.pos[1, 0])
