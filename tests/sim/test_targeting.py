"""Aim of weapons, and selection of targets."""

import math

import pytest
import torch
from builders import battle, duel
from first_catalog import Weapon

from echelon.rules import actions
from echelon.rules.actions import NO_MECH
from echelon.sim.firing import pull
from echelon.sim.targeting import focus_or_nearest, take_aim

pytestmark = pytest.mark.quick


def test_aim_measures_centre_to_centre():
    scene = duel(8, "medium", "scout").place(1, 13.5, 24.5, bottom=12.6)  # centres at z = 1.5 and 13.5
    aim = take_aim(scene.state)
    assert aim.ground[0, 0, 1].item() == pytest.approx(5)
    assert aim.bearing_cos[0, 0, 1].item() == pytest.approx(3)  # 5 away at cos = 3 / 5
    assert aim.distance[0, 0, 1].item() == pytest.approx(13)


@pytest.mark.parametrize(("bearing_deg", "inside"), [(0, True), (59, True), (-59, True), (61, False), (180, False)])
def test_an_arc_is_measured_on_the_ground(bearing_deg, inside):
    scene = duel(8, "medium", "medium")
    scene.set(0, yaw=math.radians(bearing_deg)).place(1, 18.5, 20.5, bottom=9.0)
    aim = take_aim(scene.state)
    assert aim.within(math.cos(math.radians(60)))[0, 0, 0, 1].item() == inside


def pick(distance, candidate, focus=NO_MECH):
    is_focus = torch.arange(len(distance)) == focus
    has, target = focus_or_nearest(torch.tensor([[candidate]]), torch.tensor([[distance]]), is_focus)
    return target.item() if has.item() else None


def test_the_nearest_candidate_is_chosen():
    assert pick([3.0, 1.0, 2.0], [True, True, True]) == 1
    assert pick([3.0, 1.0, 2.0], [True, False, True]) == 2


def test_ties_go_to_the_lowest_index():
    assert pick([5.0, 2.0, 2.0], [True, True, True]) == 1


def test_focus_target_wins_if_it_is_a_candidate():
    assert pick([3.0, 1.0, 2.0], [True, True, True], focus=0) == 0
    assert pick([3.0, 1.0, 2.0], [False, True, True], focus=0) == 1


def test_no_candidate_gives_no_target():
    assert pick([3.0, 1.0, 2.0], [False, False, False], focus=1) is None


@pytest.mark.parametrize("hp", [60, 0])
def test_teammates_and_dead_mechs_are_not_targets(hp):
    scene = battle(("medium", "medium"), ("scout",)).place(0, 10.5, 20.5, yaw=0.0).place(1, 13.5, 20.5, yaw=0.0)
    scene.place(2, 16.5, 20.5).set(2, hp=hp)
    orders = actions.idle(1, scene.sim_model.roster, scene.sim_model.config)
    pulls = pull(scene.state, orders, torch.zeros(1, 3, dtype=torch.bool), scene.sim_model)
    assert pulls.aimed[0, Weapon.LASER, :2].tolist() == [hp > 0] * 2
    assert hp == 0 or pulls.target[0, Weapon.LASER, :2].tolist() == [2, 2]
