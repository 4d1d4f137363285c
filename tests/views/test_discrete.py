"""The table of discrete actions, and their masks."""

import dataclasses

import pytest
import torch
from builders import arena, told
from first_catalog import SMALL, Timer, Weapon

from echelon.env.discrete import ACTIONS, ActionMasks, action_table
from echelon.rules import actions
from echelon.rules.actions import Act
from echelon.rules.config import FeaturesConfig

CONFIG = dataclasses.replace(SMALL, blue=("heavy", "medium"), red=("light", "scout"))
HEAVY, MEDIUM, LIGHT, SCOUT = range(4)
NAMES = [action.name for action in ACTIONS]


def masks_of(env):
    return ActionMasks(env.sim_model)(env.state)[0]


def allowed(mask, mech, name):
    return mask[mech, NAMES.index(name)].item()


def test_the_table_has_64_rows_of_different_names_and_numbers():
    table = action_table(3, torch.device("cpu"))
    assert table.shape == (64, actions.CONTROLS + 3) and len(set(NAMES)) == 64
    assert len(table.unique(dim=0)) == 64
    assert table.abs().max() <= 1 and not table[:, actions.CONTROLS :].any()
    assert NAMES[0] == "stand_straight_hold"


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("stand_straight_hold", {}),
        ("back_turn_left_secondary", {Act.FORWARD: -1.0, Act.YAW_RATE: 1.0, Act.SECONDARY: 0.5}),
        ("right_straight_tertiary", {Act.STRAFE: -1.0, Act.TERTIARY: 0.5}),
        ("ahead_straight_all_guns", {Act.FORWARD: 1.0, Act.PRIMARY: 0.5, Act.SECONDARY: 0.5, Act.TERTIARY: 0.5}),
        ("ahead_straight_jump", {Act.FORWARD: 1.0, Act.VERTICAL: 1.0}),
        ("stand_straight_vent", {Act.VENT: 1.0}),
    ],
)
def test_row_matches_its_name_and_targets_the_closest_hostile(name, columns):
    row = action_table(0, torch.device("cpu"))[NAMES.index(name)]
    expected = torch.zeros(actions.CONTROLS)
    for column, value in {Act.PREFER_0: 1.0, Act.SORT_CLOSEST: 1.0, Act.HOSTILE_ONLY: 1.0, **columns}.items():
        expected[column] = value
    assert torch.equal(row, expected)


def test_triggers_without_a_weapon_are_masked():
    mask = masks_of(arena(CONFIG))
    carried = {
        HEAVY: {"primary": True, "secondary": True, "tertiary": True},
        MEDIUM: {"primary": True, "secondary": False, "tertiary": True},
        LIGHT: {"primary": True, "secondary": True, "tertiary": True},
        SCOUT: {"primary": True, "secondary": True, "tertiary": False},  # painter and emitter
    }
    for mech, triggers in carried.items():
        for trigger, is_there in triggers.items():
            assert allowed(mask, mech, f"left_turn_right_{trigger}") == is_there, (mech, trigger)
        assert allowed(mask, mech, "stand_straight_hold") and allowed(mask, mech, "stand_straight_vent")
        assert allowed(mask, mech, "ahead_straight_special") and allowed(mask, mech, "ahead_straight_all_guns")
        assert allowed(mask, mech, "ahead_straight_jump") == (mech in (LIGHT, SCOUT))


def test_disabled_systems_are_masked():
    mask = masks_of(arena(dataclasses.replace(CONFIG, features=FeaturesConfig(ewar=False, smoke=False))))
    assert not allowed(mask, SCOUT, "stand_straight_secondary") and allowed(mask, HEAVY, "stand_straight_secondary")
    assert not allowed(mask, HEAVY, "ahead_straight_special")


@pytest.mark.parametrize(("left", "is_ready"), [(0, True), (5, True), (6, False)])
def test_weapon_ready_within_the_decision_is_unmasked(left, is_ready):
    """There are 5 substeps per decision: a cooldown of 5 reaches 0 in the last substep, in which the weapon fires."""
    env = arena(CONFIG)
    env.state.mechs.cooldown[:, :, int(Timer.LASER)] = left
    mask = masks_of(env)
    assert allowed(mask, HEAVY, "stand_straight_primary") == is_ready
    assert allowed(mask, HEAVY, "stand_straight_tertiary") and allowed(mask, HEAVY, "ahead_straight_all_guns")


@pytest.mark.parametrize(("left", "fires"), [(5, True), (6, False)])
def test_mask_includes_the_last_substep(left, fires):
    env = arena(CONFIG)
    td = env.reset()
    env.state.mechs.cooldown[:, MEDIUM, int(Timer.KINETIC)] = left
    env.state.mechs.cooldown[:, MEDIUM, int(Timer.PAINTER)] = 99
    row = action_table(CONFIG.comm_dim, torch.device("cpu"))[NAMES.index("stand_straight_tertiary")]
    assert allowed(masks_of(env), MEDIUM, "stand_straight_tertiary") == fires
    told(env, td)["blue", "action"][:, MEDIUM] = row
    env.step(td)
    assert env.state.tally.shots[0, MEDIUM, int(Weapon.AUTOCANNON)].item() == fires


def test_trigger_with_two_weapons_is_unmasked_if_one_is_ready():
    env = arena(CONFIG)
    env.state.mechs.cooldown[:, MEDIUM, int(Timer.KINETIC)] = 50
    assert allowed(masks_of(env), MEDIUM, "stand_straight_tertiary")  # its painter
    env.state.mechs.cooldown[:, MEDIUM, int(Timer.PAINTER)] = 50
    assert not allowed(masks_of(env), MEDIUM, "stand_straight_tertiary")


def test_dead_mechs_have_only_the_first_action():
    env = arena(CONFIG)
    env.state.mechs.hp[:, HEAVY] = 0
    mask = masks_of(env)
    assert mask[HEAVY].nonzero().flatten().tolist() == [0] and mask[MEDIUM].sum() > 1


def test_masked_action_has_no_effect():
    env = arena(CONFIG)
    table = action_table(CONFIG.comm_dim, torch.device("cpu"))
    row = table[NAMES.index("stand_straight_secondary")].expand(1, 4, -1)
    orders = actions.decode(row, env.state.focus_slots, env.sim_model.roster, CONFIG.features)
    assert orders.fire[0, :, MEDIUM].sum() == 0 and orders.fire[0, :, HEAVY].sum() == 1
    assert orders.ecm.tolist() == [[False, False, False, True]] and not orders.eccm.any()
