"""Partitions of the commanded mechs into groups: the same battles, with specs for each group."""

import dataclasses
from itertools import product

import pytest
import torch
from host_reads import HostReads
from tensordict import TensorDict
from tiers import usually
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import MarlGroupMapType, check_env_specs

import echelon
from echelon.env.discrete import ACTIONS, action_table
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.env.observation.layout import STREAMS
from echelon.rules.config import PACK, EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.views.partition import groups_of, team_members
from echelon.views.transforms import FlatObservation

BLUE, RED = ("medium", "scout", "medium", "light", "scout", "heavy"), ("scout", "heavy")
UNEQUAL = dataclasses.replace(
    EnvConfig.small(), map_pool=2, blue=BLUE, red=RED, rules=RulesConfig(max_episode_s=1.0), comm_dim=3
)
"""6 against 2, battles of 4 decisions; blue's sixth mech is a pack of its own."""
WIDTH = layout.action_width(UNEQUAL.comm_dim)
MEMORY = Composite(h=Unbounded((3,)))
LISTED = {"odd": ["agent_5", "agent_1"], "one": ["agent_3"], "rest": ["agent_0", "agent_4", "agent_2"]}
EVERYONE = {"mixed": ["red_1", "blue_2"], "rest": ["blue_5", "blue_0", "red_0", "blue_1", "blue_4", "blue_3"]}
FORMS = ({"action": "discrete", "state": True, "memory": MEMORY}, {"observation": "structured"})


def versus(groups="class", config=UNEQUAL, **kwargs):
    return echelon.versus(config, "heuristic:hard", 2, "cpu", 1, side="blue", groups=groups, **kwargs)


def teams(groups="class", config=UNEQUAL, **kwargs):
    return echelon.teams(config, 2, "cpu", 1, groups=groups, **kwargs)


VERSUS_GROUPS = ("class", "pack", "mech", LISTED, MarlGroupMapType.ONE_GROUP_PER_AGENT)
TEAMS_GROUPS = ("class", "pack", "mech", EVERYONE, MarlGroupMapType.ALL_IN_ONE_GROUP)


# Who is in which group


def test_groups_by_class_of_one_team():
    assert versus().group_map == {
        "medium": ["agent_0", "agent_2"],
        "scout": ["agent_1", "agent_4"],
        "light": ["agent_3"],
        "heavy": ["agent_5"],
    }


def test_groups_by_class_of_both_teams_never_mix_them():
    found = teams().group_map
    assert found["blue_scout"] == ["blue_1", "blue_4"] and found["red_scout"] == ["red_0"]
    assert list(found) == ["blue_medium", "blue_scout", "blue_light", "blue_heavy", "red_scout", "red_heavy"]


def test_groups_by_pack_are_packs_of_five():
    five = [f"blue_{i}" for i in range(5)]
    assert teams("pack").group_map == {"blue_pack_0": five, "blue_pack_1": ["blue_5"], "red_pack_0": ["red_0", "red_1"]}
    assert versus("pack").group_map == {"pack_0": [f"agent_{i}" for i in range(5)], "pack_1": ["agent_5"]}


def test_groups_by_mech_have_the_names_of_the_mechs():
    assert versus("mech").group_map == {f"agent_{i}": [f"agent_{i}"] for i in range(6)}
    assert list(teams("mech").group_map) == teams("mech").agent_names


def test_teams_of_other_names_are_partitioned_by_them():
    view = teams(("us", "them"), group_map="class")
    assert view.group_map["them_heavy"] == ["them_1"] and view.agent_names[:2] == ["us_0", "us_1"]


def test_group_map_is_groups():
    one = echelon.versus(UNEQUAL, "heuristic:easy", 1, "cpu", 1, side="blue", group_map=LISTED)
    assert one.group_map == versus(LISTED).group_map == LISTED


def test_side_both_allows_groups_by_class_if_classes_agree():
    equal = dataclasses.replace(UNEQUAL, blue=PACK, red=PACK)
    members = team_members(equal, "both", [f"agent_{i}" for i in range(5)])
    assert list(groups_of("class", members)) == ["heavy", "medium", "light", "scout"]
    swapped = dataclasses.replace(equal, red=("heavy", "medium", "light", "medium", "scout"))
    members = team_members(swapped, "both", [f"agent_{i}" for i in range(5)])
    assert groups_of("pack", members) == {"pack_0": [f"agent_{i}" for i in range(5)]}
    with pytest.raises(
        ConfigError,
        match=r"another rule than 'class' unless side is .*agent_2 is medium or light, depending on the side",
    ):
        groups_of("class", members)


# Specs


@pytest.mark.parametrize("forms", FORMS, ids=["discrete", "structured"])
@pytest.mark.parametrize("groups", VERSUS_GROUPS, ids=str)
def test_specs_of_versus_are_valid(groups, forms):
    check_env_specs(versus(groups, **forms), break_when_any_done="both")


@pytest.mark.parametrize("forms", FORMS, ids=["discrete", "structured"])
@pytest.mark.parametrize("groups", TEAMS_GROUPS, ids=str)
def test_specs_of_teams_are_valid(groups, forms):
    check_env_specs(teams(groups, **forms), break_when_any_done="both")


def test_each_group_has_its_own_shapes():
    view = versus(LISTED, action="discrete", memory=MEMORY, state=True)
    td = view.rollout(3)
    for group, mechs in LISTED.items():
        batch = (2, 3, len(mechs))
        assert td[group].batch_size == batch and td[group, "action"].shape == batch
        assert td[group, "action_mask"].shape == (*batch, len(ACTIONS)) and td[group, "mask"].shape == batch
        assert td["next", group, "reward"].shape == (*batch, 1)
        assert td[group, "memory", "h"].shape == (*batch, 3)
        assert td["next", group, "reward_terms"].shape == (*batch, len(view.env.reward_terms))
    assert td["state"].shape == (2, 3, 8 * layout.width(layout.EGO))
    assert view.is_flat and view.is_discrete and view.memory == MEMORY
    assert view.rows == {"odd": [5, 1], "one": [3], "rest": [0, 4, 2]}


def test_groups_may_have_different_forms():
    forms = {
        "observation": {"odd": "structured", "one": "flat", "rest": "flat"},
        "action": {"odd": "continuous", "one": "discrete", "rest": "continuous"},
        "memory": {"odd": None, "one": MEMORY, "rest": Composite(c=Unbounded((5,)))},
    }
    view = versus(LISTED, **forms)
    check_env_specs(view, break_when_any_done="both")
    observation, action = view.full_observation_spec, view.full_action_spec
    assert set(observation["odd", "observation"].keys()) == set(STREAMS)
    assert isinstance(observation["one", "observation"], Bounded)
    assert isinstance(action["one", "action"], Categorical) and action["odd", "action"].shape == (2, 2, WIDTH)
    for name, told in (("is_flat", "observation"), ("is_discrete", "action"), ("memory", "memory")):
        with pytest.raises(ConfigError, match=f"{told} must be the same for all groups here"):
            getattr(view, name)
    td = view.rollout(2)
    assert "action_mask" in td["one"].keys() and "action_mask" not in td["odd"].keys()
    assert "memory" not in td["odd"].keys() and td["rest", "memory", "c"].shape == (2, 2, 3, 5)


# The same battles


@pytest.mark.parametrize("groups", TEAMS_GROUPS, ids=str)
def test_partition_only_renames_mechs(groups):
    """Actions and observations belong to the right mechs for any groups and any order in them."""
    view, plain = teams(groups), echelon.teams(UNEQUAL, 2, "cpu", 1)
    generator = torch.Generator().manual_seed(0)
    td, other = view.reset(), plain.reset()
    for _ in range(6):
        by_name = {name: torch.rand(2, WIDTH, generator=generator) * 2 - 1 for name in plain.agent_names}
        for env, shown in ((view, td), (plain, other)):
            for group, mechs in env.group_map.items():
                shown[group, "action"] = torch.stack([by_name[name] for name in mechs], 1)
        (step, td), (expected, other) = view.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        for group, mechs in view.group_map.items():
            for place, name in enumerate(mechs):
                team, _, number = name.partition("_")
                for key in ("observation", "reward", "mask", "reward_terms"):
                    wanted = expected["next", team, key][:, int(number)]
                    assert torch.equal(step["next", group, key][:, place], wanted), (name, key)


def test_discrete_and_continuous_groups_act_together():
    mixed = versus(LISTED, action={"odd": "continuous", "one": "discrete", "rest": "continuous"})
    plain = versus(LISTED)
    table, generator = action_table(UNEQUAL.comm_dim, torch.device("cpu")), torch.Generator().manual_seed(0)
    td, other = mixed.reset(), plain.reset()
    for _ in range(5):
        for group in ("odd", "rest"):
            td[group, "action"] = torch.rand(2, len(LISTED[group]), WIDTH, generator=generator) * 2 - 1
            other[group, "action"] = td[group, "action"]
        td["one", "action"] = chosen = torch.randint(0, len(ACTIONS), (2, 1), generator=generator)
        other["one", "action"] = table[chosen]
        (step, td), (expected, other) = mixed.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        for group in LISTED:
            assert torch.equal(step["next", group, "observation"], expected["next", group, "observation"])


def test_group_memory_is_carried_and_reset():
    """One of three groups has no memory, and the others have different ones."""
    view = versus(LISTED, memory={"odd": MEMORY, "one": None, "rest": Composite(c=Unbounded((5,)))})
    td, seen = view.reset(), []
    for t in range(6):
        seen.append((td["odd", "memory", "h"][0, 0, 0].item(), td["rest", "memory", "c"][1, 2, 4].item()))
        td = view.rand_action(td)
        td["next", "odd", "memory", "h"] = torch.full((2, 2, 3), t + 1.0)
        td["next", "rest", "memory", "c"] = torch.full((2, 3, 5), -t - 1.0)
        _, td = view.step_and_maybe_reset(td)
    assert seen == [(0, 0), (1, -1), (2, -2), (3, -3), (0, 0), (5, -5)]


def test_step_copies_nothing_to_the_host(monkeypatch):
    view = versus("class", action="discrete", state=True, memory=MEMORY, backend="eager")
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    td = view.reset()
    for _ in range(2):
        _, td = view.step_and_maybe_reset(view.rand_action(td))
    td = view.rand_action(td)
    with HostReads() as counter:
        view.step_and_maybe_reset(td)
    assert not counter.reads


# Rounded observations


HALVES = (torch.bfloat16, torch.float16, torch.float32)
MADE = {"teams": teams, "pack": lambda **kwargs: versus("pack", **kwargs), "mechs": None}


@pytest.mark.parametrize(("name", "dtype"), usually(product(MADE, HALVES), *zip(MADE, HALVES, strict=True)), ids=str)
def test_low_precision_observations_are_rounded_float32(name, dtype):
    make = MADE[name]
    if make is None:

        def make(**kwargs):
            return echelon.mechs(UNEQUAL, "heuristic:hard", 2, "cpu", 1, side="red", **kwargs)

    view, plain = make(dtype=dtype, state=True), make(state=True)
    check_env_specs(make(dtype=dtype, state=True), break_when_any_done="both")
    td, other = view.reset(), plain.reset()
    rounded = 0
    for _ in range(6):
        td = view.rand_action(td)
        for key in view.action_keys:
            other[key] = td[key]
        (step, td), (expected, other) = view.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        for found, wanted in ((step["next"], expected["next"]), (td, other)):
            for key in wanted.keys(True, True):
                is_flat = key == "state" or key == "observation" or key[-1] == "observation"
                value = wanted[key].to(dtype) if is_flat else wanted[key]
                assert found[key].dtype == value.dtype and torch.equal(found[key], value), key
                rounded += int(is_flat and not torch.equal(value.float(), wanted[key]))
    assert (rounded > 0) == (dtype != torch.float32)
    assert view.full_observation_spec["state"].dtype == dtype


def test_transform_rounds_like_views():
    streams = echelon.EchelonEnv(UNEQUAL, 2, "cpu", 1).reset()["blue", "observation"]
    assert torch.equal(FlatObservation.of(streams, torch.bfloat16), FlatObservation.of(streams).to(torch.bfloat16))


# Mistakes

NAMES = "agent_0, agent_1, agent_2, agent_3, agent_4, agent_5"


def one_less(**more):
    return {"a": ["agent_0", "agent_1", "agent_2", "agent_3", "agent_4"], **more}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: versus(one_less()), f"groups must be each of {NAMES} in one group, got agent_5 in no group"),
        (lambda: versus(one_less(b=["agent_5"], c=["agent_0"])), "got agent_0 in 'a' and in 'c'"),
        (lambda: versus(one_less(b=["agent_5", "agent_5"])), "got agent_5 in 'b' and in 'b'"),
        (lambda: versus(one_less(b=["agent_6"])), "got 'agent_6' in 'b'"),
        (lambda: versus(one_less(b=[["agent_5"]])), r"got \['agent_5'\] in 'b'"),
        (lambda: versus(one_less(b=["agent_5"], c=[])), "got no mech in 'c'"),
        (lambda: versus({}), "groups must be each of agent_0, .* in no group"),
        (lambda: versus(one_less(b="agent_5")), "groups must be class, pack, mech, a MarlGroupMapType or lists"),
        (lambda: versus(one_less(state=["agent_5"])), "a group of groups must be a name .* got 'state'"),
        (lambda: versus({1: ["agent_0"]}), "a group of groups must be a name other than"),
        (lambda: versus("hull"), "groups must be class, pack, mech, .* got 'hull'"),
        (lambda: versus(3), "groups must be class, pack, mech, .* got 3"),
        (lambda: versus("class", group_map="pack"), "group_map must be left out if `groups` is given"),
        (lambda: teams("class", group_map="pack"), "group_map must be None, because `groups` lists mechs"),
        (lambda: teams(("a", "b", "c")), "groups must be two different names, or a partition"),
        (lambda: teams(("a", "done")), "a group of groups must be a name other than"),
        (lambda: teams(("a", "b"), group_map={}), "group_map must be each of a_0, .* in no group"),
        (lambda: teams({"a": ["agent_0"]}), "groups must be each of blue_0, blue_1"),
        (lambda: versus(LISTED, action={"odd": "discrete"}), "action must be one value, or one for each of odd, one"),
        (lambda: versus("pack", observation={"pack_0": "flat", "pack_1": 1}), r"observation\['pack_1'\] must be flat"),
        (lambda: versus(LISTED, memory={**dict.fromkeys(LISTED), "one": 3}), r"memory\['one'\] must be a Composite"),
        (lambda: versus(dtype=torch.float64), "dtype must be torch.float32, torch.float16, torch.bfloat16"),
        (lambda: versus(dtype="bfloat16"), "dtype must be torch.float32, .* got 'bfloat16'"),
        (lambda: versus(observation="structured", dtype=torch.float16), "dtype must be torch.float32 with structured"),
    ],
)  # fmt: skip
def test_bad_partition_raises_one_line(make, message):
    with pytest.raises(ConfigError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_missing_action_error_names_the_groups():
    view = versus("pack")
    td = view.reset()
    td["pack_0", "action"] = torch.zeros(2, 5, WIDTH)
    with pytest.raises(
        ConfigError, match=r"\('pack_1', 'action'\) is missing: step requires the actions of 'pack_0', "
    ):
        view.step(TensorDict({"pack_0": {"action": td["pack_0", "action"]}}, [2]))
