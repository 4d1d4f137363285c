"""Decoding of actions into orders."""

import dataclasses

import pytest
import torch
from first_catalog import SMALL, Weapon

from echelon.rules import actions
from echelon.rules.actions import CONTROLS, NO_MECH, Act
from echelon.rules.config import FeaturesConfig
from echelon.rules.roster import build_roster

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
COMM_DIM = 2
CONFIG = dataclasses.replace(SMALL, blue=("heavy", "medium", "light"), red=("scout",), comm_dim=COMM_DIM)
ROSTER = build_roster(CONFIG, CPU)
ALL = FeaturesConfig()


def decode(mech=0, slots=(NO_MECH,) * 5, features=ALL, **told):
    """Decode actions that are zero except the columns `told`, keyed by name, of one mech."""
    action = torch.zeros(1, 4, CONTROLS + COMM_DIM)
    for name, value in told.items():
        action[0, mech, Act[name.upper()]] = value
    return actions.decode(action, torch.tensor(slots).expand(1, 4, 5), ROSTER, features)


def test_action_layout_matches_the_rules_page():
    assert CONTROLS == 18
    assert [Act.FORWARD, Act.STRAFE, Act.VERTICAL, Act.YAW_RATE, Act.PRIMARY, Act.VENT] == [0, 1, 2, 3, 4, 5]
    assert [Act.SECONDARY, Act.TERTIARY, Act.SPECIAL] == [6, 7, 8]
    assert [Act.PREFER_0, Act.PREFER_4, Act.SORT_CLOSEST, Act.SORT_MOST_DAMAGED] == [9, 13, 14, 16]
    assert Act.HOSTILE_ONLY == 17
    assert "5 vent" in actions.layout(8) and "then 8 message numbers" in actions.layout(8)


def test_throttle_has_at_most_length_one():
    both = decode(forward=1.0, strafe=1.0).throttle[0, 0]
    assert both.tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert decode(forward=0.3, strafe=-0.4).throttle[0, 0].tolist() == pytest.approx([0.3, -0.4])


def test_thrust_is_upward_and_zero_without_jets():
    assert decode(mech=3, vertical=0.7).thrust[0, 3].item() == pytest.approx(0.7)  # a scout
    assert decode(mech=3, vertical=-0.7).thrust[0, 3] == 0
    assert decode(mech=1, vertical=0.7).thrust[0, 1] == 0  # a medium


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_triggers_need_a_value_above_zero(value):
    orders = decode(primary=value, vent=value, hostile_only=value)
    assert not orders.fire.any() and not orders.vent.any() and not orders.hostile_only.any()


HEAVY, MEDIUM, LIGHT, SCOUT = range(4)


@pytest.mark.parametrize(
    ("mech", "column", "fires"),
    [
        (HEAVY, "primary", {Weapon.LASER}),
        (HEAVY, "secondary", {Weapon.MISSILE}),
        (HEAVY, "tertiary", {Weapon.GAUSS}),
        (HEAVY, "special", {Weapon.SMOKE}),
        (MEDIUM, "primary", {Weapon.LASER}),
        (MEDIUM, "secondary", set()),
        (MEDIUM, "tertiary", {Weapon.AUTOCANNON, Weapon.PAINTER}),
        (MEDIUM, "special", {Weapon.SMOKE}),
        (LIGHT, "primary", {Weapon.FLAMER}),
        (LIGHT, "secondary", {Weapon.LASER}),
        (LIGHT, "tertiary", {Weapon.PAINTER}),
        (LIGHT, "special", {Weapon.SMOKE}),
        (SCOUT, "primary", {Weapon.PAINTER}),
        (SCOUT, "secondary", set()),  # its ECM
        (SCOUT, "tertiary", set()),
        (SCOUT, "special", {Weapon.SMOKE}),
    ],
)
def test_each_hull_fires_its_own_weapons(mech, column, fires):
    fire = decode(mech=mech, **{column: 0.01}).fire[0]
    wanted = torch.zeros_like(fire)
    wanted[[int(weapon) for weapon in fires], mech] = True
    assert torch.equal(fire, wanted)


@pytest.mark.parametrize(
    ("secondary", "ecm", "eccm"), [(-1, 0, 0), (0, 0, 0), (0.01, 1, 0), (0.5, 1, 0), (0.51, 0, 1), (7, 0, 1)]
)
def test_a_scouts_secondary_is_ecm_up_to_a_half_and_eccm_above(secondary, ecm, eccm):
    orders = decode(mech=SCOUT, secondary=secondary)
    assert (orders.ecm.tolist(), orders.eccm.tolist()) == ([[0, 0, 0, ecm]], [[0, 0, 0, eccm]])


@pytest.mark.parametrize("mech", [HEAVY, MEDIUM, LIGHT])
@pytest.mark.parametrize("secondary", [0.3, 1.0])
def test_only_scouts_jam(mech, secondary):
    orders = decode(mech=mech, secondary=secondary)
    assert not orders.ecm.any() and not orders.eccm.any()


def test_columns_of_disabled_systems_are_ignored():
    off = dataclasses.replace(ALL, ewar=False, target_preference=False, observation_control=False, comms=False)
    told = {"secondary": 0.3, "prefer_1": 0.9, "sort_biggest": 0.9, "hostile_only": 0.9}
    enabled, disabled = (decode(SCOUT, (NO_MECH, 0, 1, 2, NO_MECH), features, **told) for features in (ALL, off))
    fields = "ecm", "focus", "sort_mode", "hostile_only"
    assert [getattr(enabled, field)[0, 3] for field in fields] == [1, 0, 1, 1]
    assert [getattr(disabled, field)[0, 3] for field in fields] == [0, NO_MECH, 0, 0]
    action, no_slots = torch.ones(1, 4, CONTROLS + COMM_DIM), torch.full((1, 4, 5), NO_MECH)
    assert actions.decode(action, no_slots, ROSTER, ALL).message.all()
    assert not actions.decode(action, no_slots, ROSTER, off).message.any()


def test_values_out_of_range_are_clamped():
    orders = decode(yaw_rate=7.0, forward=-9.0)
    assert orders.turn[0, 0] == 1
    assert orders.throttle[0, 0].tolist() == [-1, 0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_become_zero_and_are_counted(value):
    orders = decode(mech=1, forward=value, primary=value, yaw_rate=0.5)
    assert orders.throttle[0, 1].tolist() == [0, 0]
    assert not orders.fire.any()
    assert orders.turn[0, 1] == 0.5
    assert orders.bad.tolist() == [[0, 2, 0, 0]]


def test_input_tensor_is_not_modified():
    action = torch.full((1, 4, CONTROLS + COMM_DIM), float("nan"))
    action[..., 3] = 7.0
    kept = action.clone()
    actions.decode(action, torch.full((1, 4, 5), NO_MECH), ROSTER, ALL)
    assert torch.equal(action.isnan(), kept.isnan()) and (action[..., 3] == 7).all()


def test_focus_is_the_preferred_slot_with_an_enemy():
    slots = (NO_MECH, 3, 2, NO_MECH, NO_MECH)
    assert decode(slots=slots, prefer_1=0.2, prefer_2=0.9).focus[0, 0] == 2
    assert decode(slots=slots, prefer_0=1.0, prefer_1=0.2).focus[0, 0] == 3  # slot 0 has no enemy
    assert decode(slots=slots, prefer_1=0.5, prefer_2=0.5).focus[0, 0] == 3  # ties go to the first
    assert decode(slots=slots, prefer_1=0.0, prefer_2=-0.5).focus[0, 0] == NO_MECH  # no preference above 0
    assert decode(slots=slots, prefer_0=1.0).focus[0, 0] == NO_MECH


def test_sort_mode_is_the_largest_of_three():
    assert decode().sort_mode[0, 0] == 0
    assert decode(sort_biggest=0.1).sort_mode[0, 0] == 1
    assert decode(sort_biggest=0.1, sort_most_damaged=0.2).sort_mode[0, 0] == 2


def test_messages_follow_the_controls():
    action = torch.zeros(1, 4, CONTROLS + COMM_DIM)
    action[0, 2, CONTROLS:] = torch.tensor([0.25, -3.0])
    orders = actions.decode(action, torch.full((1, 4, 5), NO_MECH), ROSTER, ALL)
    assert orders.message[0, 2].tolist() == [0.25, -1]


def test_idle_orders_do_nothing():
    orders = actions.idle(2, ROSTER, CONFIG)
    for name in (
        "throttle",
        "thrust",
        "turn",
        "vent",
        "fire",
        "ecm",
        "eccm",
        "message",
        "bad",
        "hostile_only",
        "sort_mode",
    ):
        assert not getattr(orders, name).any(), name
    assert (orders.focus == NO_MECH).all()
