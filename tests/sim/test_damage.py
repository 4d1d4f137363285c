"""Damage from behind, leg damage, deaths and credit for kills."""

import dataclasses
import math

import pytest
import torch
from builders import duel, scene
from first_catalog import SMALL, Weapon

from echelon.rules.actions import Act
from echelon.sim import damage

pytestmark = pytest.mark.quick

LASER = (0, Act.PRIMARY, 1.0)


def team(blue, red):
    return scene(dataclasses.replace(SMALL, blue=blue, red=red))


# Rear arc and legs


@pytest.mark.parametrize(("facing_deg", "lost"), [(0, 21), (44, 21), (-44, 21), (46, 14), (90, 14), (180, 14)])
def test_hit_from_behind_deals_rear_factor_times_damage(facing_deg, lost):
    s = duel(7, "medium", "medium").set(1, yaw=math.radians(facing_deg))
    s.run(s.orders(LASER))
    assert s.value("hp", 1) == 150 - lost
    assert s.counted("damage", 0) == lost


def test_hit_from_behind_removes_rear_factor_times_stability():
    s = duel(8, "medium", "medium").set(1, yaw=0)
    s.run(s.orders((0, Act.TERTIARY, 1.0)))
    s.run(s.orders(), 6)
    assert s.value("hp", 1) == 150 - 12
    assert s.value("stability", 1) == 92.5


# A beam hits at centre + (2u - 1) * 0.5 half heights. Leg hits are below 0.3 of the height, which is 0.4 half heights
# below the centre: u < 0.1.
@pytest.mark.parametrize(("draw", "hp", "leg_hp"), [(0.0, 143, 61), (0.09, 143, 61), (0.11, 136, 75), (0.99, 136, 75)])
def test_low_hits_damage_the_legs(draw, hp, leg_hp):
    s = duel(7, "medium", "medium")
    s.run(s.orders(LASER), beam_height=draw)
    assert (s.value("hp", 1), s.value("leg_hp", 1)) == (hp, leg_hp)


def test_leg_hit_from_behind_uses_rear_factor():
    s = duel(7, "medium", "medium").set(1, yaw=0)
    s.run(s.orders(LASER), beam_height=0.0)
    assert (s.value("hp", 1), s.value("leg_hp", 1)) == (150 - 10.5, 75 - 21)


@pytest.mark.usual
def test_legs_are_lost_once():
    s = duel(7, "medium", "medium").set(1, leg_hp=3)
    s.run(s.orders(LASER), beam_height=0.0)
    assert s.value("leg_hp", 1) == 0
    assert s.state.mechs.legged.tolist() == [[False, True]]
    assert s.counted("legs_lost", 1) == 1
    s.run(s.orders(LASER), 20, beam_height=0.0)  # a second hit finds no legs
    assert (s.counted("hits", 0, Weapon.LASER), s.counted("legs_lost", 1)) == (2, 1)


# Deaths


def test_damage_counts_up_to_the_hp_removed():
    s = duel(7, "medium", "medium").set(1, hp=10)
    s.run(s.orders(LASER))
    assert s.value("hp", 1) == 0
    assert (s.counted("damage", 0), s.counted("kills", 0)) == (10, 1)


@pytest.mark.usual
def test_a_dead_mech_is_not_killed_again():
    s = duel(7, "medium", "medium").set(1, hp=10)
    s.run(s.orders(LASER), 30)
    assert (s.counted("kills", 0), s.counted("shots", 0), s.value("hp", 1)) == (1, 1, 0)
    assert s.counted("damage", 0) == 10


def test_overkill_is_shared_in_proportion_to_damage():
    # 14 + 14 damage to 20 hp: 10 each, and the tie goes to the lower index.
    s = team(("medium", "medium"), ("medium",)).place(0, 10.5, 20.5).place(1, 10.5, 24.5)
    s.place(2, 16.5, 22.5, yaw=math.pi).set(2, hp=20)
    s.run(s.orders(LASER, (1, Act.PRIMARY, 1.0)))
    assert [s.counted("damage", n) for n in (0, 1)] == [10, 10]
    assert [s.counted("kills", n) for n in (0, 1)] == [1, 0]
    assert [s.counted("hits", n) for n in (0, 1)] == [1, 1]


def test_kill_is_credited_to_the_mech_with_most_damage():
    # Mech 1 shoots from behind: 14 and 21 damage to 10 hp count as 4 and 6.
    s = team(("medium", "medium"), ("medium",)).place(0, 10.5, 20.5).place(1, 22.5, 20.5, yaw=math.pi)
    s.place(2, 16.5, 20.5, yaw=math.pi).set(2, hp=10)
    s.run(s.orders(LASER, (1, Act.PRIMARY, 1.0)))
    assert [s.counted("damage", n) for n in (0, 1)] == pytest.approx([4, 6])
    assert [s.counted("kills", n) for n in (0, 1)] == [0, 1]


def hits_of(s, *rows):
    """Return hits with the damage of (shooter, target, hp) rows and no other effects."""
    hits = damage.no_hits(s.state)
    dealt = hits.damage.clone()
    for shooter, target, hp in rows:
        dealt[0, shooter, target] = hp
    return dataclasses.replace(hits, damage=dealt)


def apply(s, *phases):
    """Apply the hits of several phases of one substep."""
    dealt = damage.nothing_dealt(s.state)
    for rows in phases:
        s.state, dealt = damage.apply(s.state, hits_of(s, *rows), dealt, s.sim_model)
    return dealt.by_shooter[0]


def test_credit_counts_all_phases_of_the_substep():
    s = team(("medium", "medium"), ("medium",)).set(2, hp=30)
    dealt = apply(s, [(1, 2, 20.0)], [(0, 2, 16.0)])  # the second phase removes the last 10
    assert dealt[:, 2].tolist() == [10, 20, 0]
    assert s.state.tally.kills[0].tolist() == [0, 1, 0]
    assert s.state.tally.damage[0].tolist() == [10, 20, 0]


def test_killing_a_teammate_counts_as_team_kill_only():
    s = team(("medium", "medium"), ("medium",)).set(1, hp=5)
    apply(s, [(0, 1, 9.0)])
    assert s.state.tally.team_kills[0].tolist() == [1, 0, 0]
    assert not s.state.tally.kills.any() and not s.state.tally.damage.any() and not s.state.tally.hits.any()
    assert s.value("hp", 1) == 0


def test_death_without_damage_dealt_is_not_credited():
    s = team(("medium", "medium"), ("medium",))
    s.paint(2, painter=1)
    died = torch.tensor([[False, False, True]])
    credits = damage.credited_kills(died, damage.nothing_dealt(s.state), s.state, s.sim_model)
    assert not any(credit.any() for credit in credits.values())


def test_dead_mechs_take_no_damage_and_stay_dead():
    s = team(("medium", "medium"), ("medium",)).set(2, hp=0)
    apply(s, [(0, 2, 9.0)])
    assert s.value("hp", 2) == 0
    assert not s.state.tally.kills.any() and not s.state.tally.damage.any()


def test_nothing_falls_below_zero():
    s = team(("medium",), ("medium",)).set(1, stability=2.0, leg_hp=1.0)
    hits = dataclasses.replace(
        hits_of(s), leg_damage=torch.tensor([[[0.0, 5.0], [0.0, 0.0]]]), stability=torch.tensor([[0.0, 5.0]])
    )
    s.state, _ = damage.apply(s.state, hits, damage.nothing_dealt(s.state), s.sim_model)
    assert (s.value("stability", 1), s.value("leg_hp", 1)) == (0, 0)


def test_two_hits_of_a_phase_suppress_for_the_longer_time():
    s = team(("medium",), ("medium",))
    one, other = (dataclasses.replace(hits_of(s), suppress=torch.tensor([[k, 9]], dtype=torch.int32)) for k in (0, 4))
    assert (one + other).suppress.tolist() == (other + one).suppress.tolist() == [[4, 9]]


def test_a_longer_suppression_is_kept():
    s = team(("medium",), ("medium",)).set(1, suppressed=10)
    hits = dataclasses.replace(hits_of(s), suppress=torch.tensor([[0, 4]], dtype=torch.int32))
    s.state, _ = damage.apply(s.state, hits, damage.nothing_dealt(s.state), s.sim_model)
    assert s.value("suppressed", 1) == 10


# `under_fire` and `hit_from` after a hit


@pytest.mark.usual
def test_hit_mech_is_under_fire_for_under_fire_s():
    s = duel(7, "medium", "medium")
    s.run(s.orders(LASER))
    assert (s.value("under_fire", 1), s.value("under_fire", 0)) == (20, 0)
    assert s.wait(19).value("under_fire", 1) == 1
    assert s.wait().value("under_fire", 1) == 0


def test_smallest_damage_sets_under_fire():
    s = team(("medium",), ("medium",))
    apply(s, [(0, 1, 0.25)])
    assert (s.value("under_fire", 1), s.value("under_fire", 0)) == (20, 0)


@pytest.mark.usual
def test_hit_from_points_to_the_shooter():
    s = duel(5, "medium", "medium").place(1, 13.5, 24.5, yaw=1.0)  # 3 ahead and 4 to the left of the shooter
    s.run(s.orders(LASER))
    assert s.state.mechs.hit_from[0, 1].tolist() == pytest.approx([-0.6, -0.8])
    assert s.state.mechs.hit_from[0, 0].tolist() == [0, 0]
    s.wait(30)
    assert s.state.mechs.hit_from[0, 1].tolist() == pytest.approx([-0.6, -0.8])  # it stays


def test_hit_from_is_weighted_by_damage():
    # 14 from behind times 1.5, and 14 from the left: 21 along -x, 14 along +y; 25.24 together.
    s = team(("medium", "medium"), ("medium",)).place(0, 10.5, 20.5).place(1, 16.5, 26.5, yaw=-math.pi / 2)
    s.place(2, 16.5, 20.5)
    s.run(s.orders(LASER, (1, Act.PRIMARY, 1.0)))
    assert s.value("hp", 2) == 150 - 35
    assert s.state.mechs.hit_from[0, 2].tolist() == pytest.approx([-21 / 25.239, 14 / 25.239], abs=1e-4)


def test_hit_without_damage_does_not_set_under_fire():
    s = duel(7, "medium", "scout")
    s.run(s.orders((1, Act.PRIMARY, 1.0)))  # a painter
    assert s.counted("hits", 1, Weapon.PAINTER) == 1
    assert s.value("under_fire", 0) == 0 and not s.state.mechs.hit_from.any()
