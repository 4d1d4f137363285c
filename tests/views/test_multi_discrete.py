"""Multi-discrete actions: the factors of an action, and the masks of their options."""

import dataclasses

import pytest
import torch
from builders import arena
from first_catalog import SMALL, Timer
from torch.distributions import Independent
from torchrl.data import MultiCategorical
from torchrl.envs import ActionMask, TransformedEnv, check_env_specs
from torchrl.modules import MaskedCategorical

import echelon
from echelon.agents.team_policy import add_masks
from echelon.arena.view_policy import team_policy_of
from echelon.env.discrete import COMPOSITES, ActionMasks, FactorTable, factors
from echelon.env.factor_spec import FactorSpec
from echelon.rules.actions import CONTROLS, NO_MECH, Act
from echelon.rules.config import FeaturesConfig
from echelon.runtime.errors import ConfigError
from echelon.views.group_policy import team_input

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(SMALL, blue=("heavy", "medium"), red=("light", "scout"), comm_dim=2)
HEAVY, MEDIUM, LIGHT, SCOUT = range(4)
FACTORS = factors(CONFIG.comm_dim)
NAMES = [factor.name for factor in FACTORS]
SIZES = [len(factor.options) for factor in FACTORS]
BASE = {Act.PREFER_0: 1.0, Act.SORT_CLOSEST: 1.0, Act.HOSTILE_ONLY: 1.0}
"""Columns of the action whose factors all have option 0."""
COLUMNS = {
    "forward": [{}, {Act.FORWARD: 1.0}, {Act.FORWARD: -1.0}],
    "strafe": [{}, {Act.STRAFE: 1.0}, {Act.STRAFE: -1.0}],
    "vertical": [{}, {Act.VERTICAL: 1.0}],
    "yaw_rate": [{}, {Act.YAW_RATE: 1.0}, {Act.YAW_RATE: -1.0}],
    "primary": [{}, {Act.PRIMARY: 0.5}],
    "secondary": [{}, {Act.SECONDARY: 0.5}, {Act.SECONDARY: 1.0}],
    "tertiary": [{}, {Act.TERTIARY: 0.5}],
    "special": [{}, {Act.SPECIAL: 0.5}],
    "vent": [{}, {Act.VENT: 1.0}],
    "contact": [{}, *({Act.PREFER_0: 0.0, Act.PREFER_0 + slot: 1.0} for slot in range(1, 5)), {Act.PREFER_0: 0.0}],
    "sort": [{}, *({Act.SORT_CLOSEST: 0.0, sort: 1.0} for sort in (Act.SORT_BIGGEST, Act.SORT_MOST_DAMAGED))],
    "listed": [{}, {Act.HOSTILE_ONLY: 0.0}],
    "message_0": [{}, {CONTROLS: 1.0}, {CONTROLS: -1.0}],
    "message_1": [{}, {CONTROLS + 1: 1.0}, {CONTROLS + 1: -1.0}],
}
"""The columns that differ from `BASE`, by factor and option."""


def row(columns):
    values = torch.zeros(CONTROLS + CONFIG.comm_dim)
    for column, value in {**BASE, **columns}.items():
        values[column] = value
    return values


def masks_of(env, mech):
    """Return the mask of each factor's options of a mech, by name."""
    split = ActionMasks(env.sim_model, FACTORS)(env.state)[0, mech].split(SIZES)
    return {name: mask.tolist() for name, mask in zip(NAMES, split, strict=True)}


def view_of(make=echelon.versus, **how):
    return make(CONFIG, "heuristic:easy", 3, "cpu", 1, side="blue", action="multi_discrete", **how)


def test_each_option_sets_the_columns_of_its_factor():
    assert list(COLUMNS) == NAMES and [len(options) for options in COLUMNS.values()] == SIZES
    table = FactorTable(CONFIG.comm_dim, CPU)
    for place, options in enumerate(COLUMNS.values()):
        for option, columns in enumerate(options):
            action = torch.zeros(len(NAMES), dtype=torch.int64)
            action[place] = option
            assert torch.equal(table[action], row(columns)), (NAMES[place], option)


def test_options_of_different_factors_combine():
    table, generator = FactorTable(CONFIG.comm_dim, CPU), torch.Generator().manual_seed(0)
    drawn = torch.stack([torch.randint(size, (2, 50), generator=generator) for size in SIZES], -1)
    values = table[drawn]
    assert values.shape == (2, 50, CONTROLS + CONFIG.comm_dim)
    for chosen, actual in zip(drawn.flatten(0, 1).tolist(), values.flatten(0, 1), strict=True):
        columns = {}
        for option, options in zip(chosen, COLUMNS.values(), strict=True):
            columns |= options[option]
        assert torch.equal(actual, row(columns))


def test_masks_of_triggers_and_jets_equal_those_of_composite_actions():
    env = arena(CONFIG)
    env.state.mechs.cooldown[:, HEAVY, int(Timer.LASER)] = 6
    composite = ActionMasks(env.sim_model)(env.state)[0]
    actions = [action.name for action in echelon.env.discrete.ACTIONS]
    names = {name: f"stand_straight_{name}" for name in ("primary", "secondary", "tertiary")}
    names |= {"special": "ahead_straight_special", "vertical": "ahead_straight_jump"}
    for mech in range(4):
        own = masks_of(env, mech)
        for factor, action in names.items():
            assert own[factor][:2] == [True, composite[mech, actions.index(action)].item()], (mech, factor)
        assert own["forward"] == own["yaw_rate"] == [True] * 3 and own["vent"] == [True] * 2
        assert own["secondary"][2] == (mech == SCOUT)
    assert masks_of(env, HEAVY)["primary"] == [True, False]


def test_contacts_without_an_enemy_are_masked():
    env = arena(CONFIG)
    env.state.focus_slots[0, HEAVY] = torch.tensor([2, 3, NO_MECH, NO_MECH, NO_MECH])
    assert masks_of(env, HEAVY)["contact"] == [True, True, False, False, False, True]


def test_options_of_disabled_systems_are_masked():
    off = dict.fromkeys(("ewar", "comms", "observation_control", "target_preference"), False)
    own = masks_of(arena(dataclasses.replace(CONFIG, features=FeaturesConfig(**off))), SCOUT)
    assert own["message_0"] == [True, False, False] and own["sort"] == [True, False, False]
    assert own["listed"] == [True, False] and own["contact"] == [True, *[False] * 5]
    assert own["secondary"] == [True, False, False]


def test_dead_mechs_have_only_the_first_options():
    env = arena(CONFIG)
    env.state.mechs.hp[:, HEAVY] = 0
    assert all(mask == [True] + [False] * (len(mask) - 1) for mask in masks_of(env, HEAVY).values())


@pytest.mark.parametrize("make", [echelon.versus, echelon.mechs])
def test_view_plays_the_continuous_action_of_the_options(make):
    view = view_of(make)
    plain = make(CONFIG, "heuristic:easy", 3, "cpu", 1, side="blue")
    table, key = FactorTable(CONFIG.comm_dim, CPU), view.action_key
    assert view.is_discrete and isinstance(view.full_action_spec[key], MultiCategorical)
    td, other = view.reset(), plain.reset()
    torch.manual_seed(0)
    for _ in range(5):
        td = view.rand_action(td)
        other[key] = table[td[key]]
        (step, td), (expected, other) = view.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        seen = ("next", *((key[0], "observation") if isinstance(key, tuple) else ("observation",)))
        assert torch.equal(step[seen], expected[seen])


def test_masked_options_are_not_sampled():
    env = TransformedEnv(view_of(), ActionMask(("agents", "action"), ("agents", "action_mask")))
    check_env_specs(env)
    td, first, masked = env.reset(), FactorTable(CONFIG.comm_dim, CPU).first, 0
    for _ in range(6):
        mask = td["agents", "action_mask"]
        drawn = torch.stack([env.rand_action(td.clone())["agents", "action"] for _ in range(20)])
        assert mask.expand(20, *mask.shape).gather(-1, drawn + first).all()
        masked += (~mask).sum().item()
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert masked > 0


def test_spec_equals_torchrls_spec_in_shape_and_checks():
    spec, same = (kind((3, 2), shape=torch.Size((4, 5, 2))) for kind in (FactorSpec, MultiCategorical))
    assert spec.shape == same.shape == spec.clone().shape and torch.equal(spec.nvec, same.nvec)
    drawn = torch.stack([spec.rand() for _ in range(50)])
    assert drawn.amax((0, 1, 2)).tolist() == [2, 1] and all(map(same.is_in, drawn)) and spec.is_in(drawn[0])
    assert not spec.is_in(torch.full((4, 5, 2), 2)) and spec[0].shape == same[0].shape
    assert spec.expand(7, 4, 5, 2).rand().shape == (7, 4, 5, 2) and spec == spec.clone()


@pytest.mark.parametrize(
    ("option", "place", "limit"), [(2, 2, "0..1 in factor 2, got 0..2"), (-1, 0, "0..2 in factor 0")]
)
def test_index_outside_its_factor_is_an_error(option, place, limit):
    view = view_of()
    td = view.rand_action(view.reset())
    td["agents", "action"].zero_()[1, 0, place] = option
    with pytest.raises(ConfigError, match=limit):
        view.step(td)
    td["agents", "action"] = torch.zeros(td["agents", "action"].shape)
    with pytest.raises(ConfigError, match="must be int64, an option of each of 14 factors, got"):
        view.step(td)


def distribution(logits, mask):
    """Return the distribution of an action, `[..., F]`, from logits and masks of all options, `[..., S]`."""

    def padded(values, fill):
        parts = [part.movedim(-1, 0) for part in values.split(SIZES, -1)]
        return torch.nn.utils.rnn.pad_sequence(parts, True, fill).movedim((0, 1), (-2, -1))

    own, available = padded(logits, 0.0), padded(mask, False)
    return Independent(MaskedCategorical(logits=own, mask=available), 1)


def test_policy_with_torchrls_masked_categorical_learns():
    """A policy gradient raises the probability of driving ahead, and every sample is available."""
    torch.manual_seed(0)
    view = view_of(echelon.mechs)
    net = torch.nn.Linear(view.observation_spec["observation"].shape[-1], sum(SIZES))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    td, first, shares = view.reset(), FactorTable(CONFIG.comm_dim, CPU).first, []
    for _ in range(8):
        policy = distribution(net(td["observation"]), td["action_mask"])
        action = policy.sample()
        assert action.shape == (3, 2, len(NAMES)) and td["action_mask"].gather(-1, action + first).all()
        reward = (action[..., 0] == 1).float()
        loss = -(policy.log_prob(action) * (reward - 1 / 3)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shares.append(reward.mean().item())
        _, td = view.step_and_maybe_reset(td.set("action", action))
    ahead = distribution(net(td["observation"]), td["action_mask"]).base_dist.probs[..., 0, 1]
    assert ahead.mean() > 0.5, shares


def test_policy_of_the_view_reads_masks_and_acts_as_a_team_policy():
    view, read = view_of(), []
    shown = view.reset()

    def act(td):
        read.append(td["agents", "action_mask"])
        return td.set(("agents", "action"), torch.ones((3, 2, len(NAMES)), dtype=torch.int64))

    policy = team_policy_of(act, view, CONFIG, CPU)
    assert policy.reads_factor_mask and not policy.reads_action_mask
    seen = view.env.last_observation()
    memory = policy.memory_spec().expand(3, 2).zero()
    own = team_input(dict(seen["blue", "observation"].items()), seen["blue", "mask"], seen["telemetry"], memory, None)
    both = ActionMasks(view.env.sim_model, (COMPOSITES, *FACTORS))(view.env.state)[:, view.env.teams["blue"]]
    add_masks(own, policy, both)
    assert torch.equal(policy(own)["action"][0, 0], row({k: v for one in COLUMNS.values() for k, v in one[1].items()}))
    assert torch.equal(read[0], shown["agents", "action_mask"]) and "action_mask" not in own.keys()
