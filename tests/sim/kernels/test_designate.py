"""Whom a weapon aims at."""

import math

import pytest
import torch
from builders import battle
from first_catalog import Weapon
from kernel_cases import check_operator

from echelon.rules import actions
from echelon.rules.actions import NO_MECH
from echelon.sim.firing import pull
from echelon.sim.kernels.designate import designate, designate_dense, focus_or_nearest
from echelon.sim.targeting import take_aim

pytestmark = pytest.mark.quick


def pick(distance, candidate, focus=NO_MECH):
    is_focus = torch.arange(len(distance)) == focus
    has, target = focus_or_nearest(torch.tensor([[candidate]]), torch.tensor([[distance]]), is_focus)
    return target.item() if has.item() else None


def test_the_nearest_candidate_is_chosen():
    assert pick([3.0, 1.0, 2.0], [True, True, True]) == 1
    assert pick([3.0, 1.0, 2.0], [True, False, True]) == 2


def test_ties_go_to_the_lowest_index():
    assert pick([5.0, 2.0, 2.0], [True, True, True]) == 1


def test_the_focus_wins_where_it_is_a_candidate():
    assert pick([3.0, 1.0, 2.0], [True, True, True], focus=0) == 0
    assert pick([3.0, 1.0, 2.0], [False, True, True], focus=0) == 1


def test_no_candidate_no_target():
    assert pick([3.0, 1.0, 2.0], [False, False, False], focus=1) is None


@pytest.mark.parametrize("hp", [60, 0])
def test_friends_and_the_dead_are_nobodys_target(hp):
    scene = battle(("medium", "medium"), ("scout",)).place(0, 10.5, 20.5, yaw=0.0).place(1, 13.5, 20.5, yaw=0.0)
    scene.place(2, 16.5, 20.5).set(2, hp=hp)
    orders = actions.idle(1, scene.game.roster, scene.game.config)
    pulls = pull(scene.state, orders, torch.zeros(1, 3, dtype=torch.bool), scene.game)
    assert pulls.aimed[0, Weapon.LASER, :2].tolist() == [hp > 0] * 2
    assert hp == 0 or pulls.target[0, Weapon.LASER, :2].tolist() == [2, 2]


def test_the_loop_chooses_the_targets_of_the_dense_form():
    s = battle(("heavy", "medium", "light", "scout", "light"), ("heavy", "medium", "light", "scout", "heavy"))
    guns, generator = s.game.roster.guns, torch.Generator().manual_seed(7)
    by_weapon = torch.zeros(len(Weapon))
    for _ in range(200):
        s.state.mechs.pos.copy_(torch.rand(1, 10, 3, generator=generator) * torch.tensor([20.0, 20.0, 4.0]))
        s.state.mechs.yaw.copy_(torch.rand(1, 10, generator=generator) * 2 * math.pi)
        line, lock = torch.rand(2, 1, 10, 10, generator=generator) < 0.7
        alive = torch.rand(1, 10, generator=generator) < 0.8
        focus = torch.randint(-1, 10, (1, 10), generator=generator)
        facts = take_aim(s.state, s.game), line, lock, focus, alive, guns
        aimed, target = designate(*facts)
        dense_aimed, dense_target = designate_dense(*facts)
        assert torch.equal(aimed, dense_aimed) and torch.equal(target, dense_target)
        by_weapon += aimed.sum((0, 2))
    assert (by_weapon > 20).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    s = battle(("heavy", "medium"), ("light", "scout"))
    aim, guns = take_aim(s.state, s.game), s.game.roster.guns
    seen, focus = torch.ones(1, 4, 4, dtype=torch.bool), torch.zeros(1, 4, dtype=torch.int64)
    pairs = aim.distance, aim.bearing_cos, aim.ground, seen, ~seen, focus, s.state.mechs.alive
    needs = guns.needs_line, guns.needs_lock, guns.focus_only
    arcs = guns.reach_vox, guns.arc_cos, guns.focus_arc_cos
    check_operator(torch.ops.echelon.designate, *pairs, *arcs, *needs)
