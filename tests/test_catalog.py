"""The tables of the rule book, and the roster laid out from them."""

import dataclasses

import pytest
import torch

from echelon.catalog import HULLS, MATERIALS, WEAPONS, Hull, Material, Trigger, Weapon, build_roster
from echelon.config import EnvConfig, RulesConfig

CPU = torch.device("cpu")


def roster_of(blue, red):
    return build_roster(dataclasses.replace(EnvConfig.small(), blue=blue, red=red), CPU)


@pytest.mark.parametrize(
    ("hull", "row"),
    [
        # size, max speed, yaw, jet, hp, leg hp, heat cap, dissipation, tonnage
        (Hull.SCOUT, ((1.2, 1.2, 1.8), 7.0, 1.8, 18, 60, 30, 75, 13, 20)),
        (Hull.LIGHT, ((1.5, 1.5, 2.0), 6.8, 1.5, 16, 80, 40, 80, 12, 35)),
        (Hull.MEDIUM, ((2.5, 2.5, 3.0), 5.5, 1.0, 0, 150, 75, 100, 11, 55)),
        (Hull.HEAVY, ((3.5, 3.5, 4.0), 2.5, 0.6, 0, 200, 100, 130, 10, 85)),
    ],
)
def test_hulls_are_those_of_the_rule_book(hull, row):
    assert dataclasses.astuple(HULLS[hull]) == row


def test_weapons_are_those_of_the_rule_book():
    laser, cannon = WEAPONS[Weapon.LASER], WEAPONS[Weapon.AUTOCANNON]
    assert (laser.range_vox, laser.damage, laser.stability, laser.self_heat) == (8, 14, 0, 22)
    assert (laser.cooldown_s, laser.arc_deg, laser.target_heat, laser.speed_vox_per_s) == (0.6, 120, 6, 0)
    assert (cannon.range_vox, cannon.damage, cannon.stability, cannon.self_heat) == (12, 8, 5, 6)
    assert (cannon.cooldown_s, cannon.arc_deg, cannon.speed_vox_per_s, cannon.suppress_s) == (0.2, 90, 25, 1.2)
    assert laser.mounts == {
        Hull.HEAVY: Trigger.PRIMARY,
        Hull.MEDIUM: Trigger.PRIMARY,
        Hull.LIGHT: Trigger.SECONDARY,
    }
    assert cannon.mounts == {Hull.MEDIUM: Trigger.TERTIARY}


def test_an_arc_is_compared_as_the_cosine_of_its_half():
    assert WEAPONS[Weapon.LASER].arc_cos == pytest.approx(0.5)  # cos 60°
    assert WEAPONS[Weapon.AUTOCANNON].arc_cos == pytest.approx(0.5**0.5)  # cos 45°


def test_slots_hold_every_shot_in_flight():
    cannon, rules = WEAPONS[Weapon.AUTOCANNON], RulesConfig()
    flight, pause = rules.substeps(cannon.lifetime_s), rules.substeps(cannon.cooldown_s)
    assert (flight, pause) == (10, 4)
    assert cannon.slots == -(-flight // pause) == 3


@pytest.mark.parametrize(
    ("material", "solid", "opaque"),
    [
        (Material.AIR, False, False),
        (Material.DIRT, False, False),
        (Material.LAVA, False, False),
        (Material.WATER, False, False),
        (Material.SOLID, True, True),
        (Material.DEBRIS_FIELD, False, False),
        (Material.SOLID_DEBRIS, True, True),
        (Material.GLASS, True, False),
        (Material.REINFORCED, True, True),
        (Material.FOLIAGE, False, True),
    ],
)
def test_materials_block_what_the_rule_book_says(material, solid, opaque):
    assert (MATERIALS[material].solid, MATERIALS[material].opaque) == (solid, opaque)


def test_blue_comes_first():
    roster = roster_of(("heavy", "scout"), ("light", "medium", "medium"))
    assert roster.hulls == (Hull.HEAVY, Hull.SCOUT, Hull.LIGHT, Hull.MEDIUM, Hull.MEDIUM)
    assert roster.is_red.tolist() == [False, False, True, True, True]
    assert roster.teams == {"blue": slice(0, 2), "red": slice(2, 5)}
    assert roster.hostile[0].tolist() == [False, False, True, True, True]
    assert torch.equal(roster.hostile, roster.hostile.T)
    assert roster.hull_one_hot.argmax(1).tolist() == [3, 0, 1, 2, 2]
    assert roster.half_size[0].tolist() == [1.75, 1.75, 2.0]


def test_packs_are_fives_within_a_team():
    roster = roster_of(("scout",) * 7, ("light",) * 3)
    nobody = 10
    assert roster.pack_slot[6].tolist() == [5, 6, nobody, nobody, nobody]
    assert roster.pack_slot[0].tolist() == [0, 1, 2, 3, 4]
    assert roster.pack_slot[8].tolist() == [7, 8, 9, nobody, nobody]


def test_pairs_hold_every_two_mechs_once():
    roster = roster_of(("scout",) * 2, ("light",) * 2)
    assert roster.pairs.T.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    for k, (i, j) in enumerate(roster.pairs.T.tolist()):
        assert roster.pair_of[i, j] == roster.pair_of[j, i] == k


def test_triggers_hang_where_the_hull_carries_the_weapon():
    roster = roster_of(("heavy", "medium", "light"), ("scout",))
    assert roster.trigger[Weapon.LASER].tolist() == [Trigger.PRIMARY, Trigger.PRIMARY, Trigger.SECONDARY, -1]
    assert roster.trigger[Weapon.AUTOCANNON].tolist() == [-1, Trigger.TERTIARY, -1, -1]


def test_shot_slots_belong_to_the_mechs_that_carry_the_gun():
    roster = roster_of(("heavy", "medium"), ("medium", "scout"))
    assert roster.shooter.tolist() == [1, 1, 1, 2, 2, 2]
    per_shot = torch.tensor([[1.0, 2, 4, 8, 16, 32]])
    assert roster.per_shooter(per_shot[..., None])[0, :, 0].tolist() == [0, 7, 56, 0]


def test_a_roster_without_guns_has_no_shots_to_sum():
    roster = roster_of(("heavy",), ("scout",))
    assert roster.num_shots == 0
    assert roster.per_shooter(torch.zeros(3, 0, 2)).tolist() == torch.zeros(3, 2, 2).tolist()


def test_team_sums_and_means():
    roster = roster_of(("heavy", "scout"), ("light", "medium", "medium"))
    values = torch.tensor([[1.0, 2, 4, 8, 15]])
    assert roster.by_team(values).tolist() == [[3, 27]]
    assert roster.team_mean(values).tolist() == [[1.5, 9]]
    per_team = torch.tensor([[10.0, 20]])
    assert roster.of_own_team(per_team).tolist() == [[10, 10, 20, 20, 20]]
    assert roster.of_enemy_team(per_team).tolist() == [[20, 20, 10, 10, 10]]
