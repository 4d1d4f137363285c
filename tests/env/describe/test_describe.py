"""`describe` compared with the tensors of environments."""

import dataclasses
import json
import re
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tiers import usually
from torchrl.data import Bounded, Composite, Unbounded

import echelon
from echelon.env.describe.columns import REWARD_MEANINGS, describe_battle
from echelon.env.describe.description import columns_page
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.env.outcome import statistics
from echelon.env.reward import TERMS, RewardTerm
from echelon.rules import actions
from echelon.rules.actions import Act
from echelon.rules.catalog import Catalog
from echelon.rules.config import PACK, EnvConfig, FeaturesConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import build_roster
from echelon.views.transforms import FlatObservation

PAGE = Path(__file__).parents[3] / "docs" / "COLUMNS.md"
CPU = torch.device("cpu")
SWITCHES = tuple(field.name for field in dataclasses.fields(FeaturesConfig))
SHORT = dataclasses.replace(EnvConfig.small(), map_pool=2, rules=RulesConfig(max_episode_s=0.1, decision_repeat=1))
"""Battles of two decisions with one substep each."""


def off(config, *names):
    return dataclasses.replace(config, features=FeaturesConfig(**dict.fromkeys(names, False)))


# Columns and tensors agree

TEAM = st.lists(st.sampled_from(("scout", "light", "medium", "heavy")), min_size=1, max_size=6).map(tuple)
CONFIGS = st.builds(
    EnvConfig,
    world=st.builds(WorldConfig, size_x=st.integers(32, 40), size_y=st.integers(32, 40)),
    rules=st.just(SHORT.rules),
    features=st.builds(FeaturesConfig, **dict.fromkeys(SWITCHES, st.sampled_from((True, True, False)))),
    blue=TEAM,
    red=TEAM,
    observation_mode=st.sampled_from(("partial", "full")),
    command_suites=st.booleans(),
    comm_dim=st.integers(0, 4),
    map_pool=st.just(1),
)
FORMS = st.fixed_dictionaries(
    {
        "observation": st.sampled_from(("flat", "structured")),
        "action": st.sampled_from(("continuous", "discrete", "multi_discrete")),
        "state": st.booleans(),
        "memory": st.sampled_from((None, Composite(h=Unbounded((2,))))),
        "info": st.booleans(),
    }
)


def environment(kind, config, forms):
    common = {"num_envs": 2, "device": "cpu", "seed": 3, "backend": "eager"}
    if kind == "plain":
        return EchelonEnv(config, memory=forms["memory"], info=forms["info"], **common)
    if kind == "teams":
        return echelon.teams(config, groups="class", **forms, **common)
    opponent = None if kind == "both teams as rows" else "heuristic:easy"
    if kind == "versus":
        return echelon.versus(config, opponent, side="red", groups="mech", **forms, **common)
    return echelon.mechs(config, opponent, side="blue", **forms, **common)


KINDS = ("plain", "versus", "teams", "mechs", "both teams as rows")


@given(kind=st.sampled_from(KINDS), config=CONFIGS, forms=FORMS, seed=st.integers(0, 999))
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # shrinking a failing battle would take minutes
    suppress_health_check=list(HealthCheck),
)
def test_columns_match_tensors_in_number_range_and_switches(kind, config, forms, seed):
    torch.manual_seed(seed)
    env = environment(kind, config, forms)
    description = env.describe()
    specs = {"action": env.full_action_spec, "reward": env.full_reward_spec, "done": env.full_done_spec}
    specs["observation"] = env.full_observation_spec
    leaves = {}
    for spec in specs.values():
        for key in spec.keys(True, True):
            leaves[key if isinstance(key, tuple) else (key,)] = spec[key]
    assert {leaf.key for leaf in description} == {key for key in leaves if "memory" not in key[:2]}
    td = env.reset()
    for _ in range(3):
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        for leaf in description:
            told = step[leaf.key] if leaf.kind == "action" else step[("next", *leaf.key)]
            check_leaf(leaf, told, leaves[leaf.key], config.features)


def check_leaf(leaf, values, spec, features):
    """Check one tensor against its spec and its `Leaf`."""
    assert leaf.shape == tuple(values.shape) == tuple(spec.shape) and leaf.dtype == str(values.dtype), leaf.key
    assert len(leaf.axes) == len(leaf.shape)
    is_along = leaf.axes[-1] == "column"
    assert len(leaf.columns) == (leaf.shape[-1] if is_along else 1), leaf.key
    low, high = (torch.tensor([getattr(one, end) for one in leaf.columns]) for end in ("low", "high"))
    numbers = values.float()
    assert ((numbers >= low) & (numbers <= high)).all(), leaf.key
    if isinstance(spec, Bounded):
        assert (spec.space.low.float() == low).all() and (spec.space.high.float() == high).all(), leaf.key
    if leaf.kind in ("observation", "outcome") and is_along and leaf.columns:
        is_off = torch.tensor([not all(getattr(features, name) for name in one.switches) for one in leaf.columns])
        assert not numbers[..., is_off].any(), leaf.key


def test_flat_column_equals_the_named_stream_column():
    streams = EchelonEnv(SHORT, 2, "cpu", 1).reset()["blue", "observation"]
    flat = FlatObservation.of(streams)
    structured = describe_battle(SHORT)
    view = echelon.versus(SHORT, "heuristic:easy", 2, "cpu", 1)
    for place, column in enumerate(view.describe()["agents", "observation"].columns):
        stream, index, name = re.fullmatch(r"(\w+?)(?:\[([\d,]+)\])?\.(.+)", column.name).groups()
        leaf = structured["blue", "observation", stream]
        own = next(n for n, one in enumerate(leaf.columns) if one.name == name)
        rows = [] if index is None else [int(i) for i in index.split(",")]
        values = streams[stream][(..., *rows, own)] if leaf.axes[-1] == "column" else streams[stream][(..., *rows)]
        assert torch.equal(flat[..., place], values.float()), column.name
        assert dataclasses.replace(leaf.columns[own], name="") == dataclasses.replace(column, name="")


# Each switch zeroes exactly the columns that list it

BUSY = dataclasses.replace(
    EnvConfig.small(),
    map_pool=4,
    command_suites=True,
    blue=(*PACK, "scout"),
    red=("heavy", "medium", "light", "light", "scout", "medium"),
    comm_dim=2,
)
"""Battles with a light that commands a pack, and a light that does not."""


def seen_nonzero(config, decisions, battles):
    """Return the names of the columns that become nonzero in random battles, by stream, and of such statistics."""
    env = EchelonEnv(config, battles, "cpu", 5)
    generator, streams = torch.Generator().manual_seed(1), {}
    description = env.describe()
    td = env.reset()
    for _ in range(decisions):
        for group, names in env.group_map.items():
            td[group, "action"] = torch.rand(battles, len(names), 20, generator=generator) * 2 - 1
        _, td = env.step_and_maybe_reset(td)
        for group in env.group_map:
            for stream in ("contacts", "squad", "ego", "comms"):
                any_ = td[group, "observation", stream].flatten(0, -2).any(0)
                streams[stream] = streams.get(stream, False) | any_
    found = {
        f"{stream}.{column.name}"
        for stream, flags in streams.items()
        for column, is_seen in zip(description["blue", "observation", stream].columns, flags.tolist(), strict=True)
        if is_seen
    }
    counted = statistics(env.state, env.sim_model).flatten(0, 1).any(0).tolist()
    return found | {f"stats.{name}" for name, is_seen in zip(env.stat_names, counted, strict=True) if is_seen}


def naming(config):
    """Return the switches of every column of the streams and the statistics, by column name."""
    description = describe_battle(config)
    keys = {stream: ("blue", "observation", stream) for stream in ("contacts", "squad", "ego", "comms")}
    keys["stats"] = ("outcome", "stats")
    return {f"{name}.{one.name}": one.switches for name, key in keys.items() for one in description[key].columns}


@pytest.fixture(scope="module")
def with_everything():
    return seen_nonzero(BUSY, decisions=60, battles=16)


def test_random_battles_reach_most_columns_and_all_switched_ones(with_everything):
    """A precondition of the next test: columns that are always 0 would prove nothing."""
    named = naming(BUSY)
    shown = [name for name in named if not name.startswith("stats")]
    assert len(with_everything) > 0.6 * len(named) and len(with_everything & set(shown)) > 0.9 * len(shown)
    assert {name for name, switches in named.items() if switches} <= with_everything


@pytest.mark.parametrize("switch", usually(SWITCHES, "ewar", "smoke"))
def test_switch_zeroes_exactly_the_columns_that_name_it(switch, with_everything):
    """Play more and longer battles than with everything on, so that rare events occur."""
    without = seen_nonzero(off(BUSY, switch), decisions=120, battles=32)
    named = {name for name, switches in naming(BUSY).items() if switch in switches}
    assert with_everything - without == named and not named & without


HULLS = (("scout", "heavy"), ("scout",))


@pytest.mark.parametrize(
    ("switch", "hulls"),
    usually(product(SWITCHES, HULLS), ("smoke", HULLS[0]), ("ewar", HULLS[0]), ("ewar", HULLS[1])),
    ids=str,
)
def test_switch_masks_exactly_the_discrete_actions_that_name_it(switch, hulls):
    """At the start every weapon is ready. A scout's secondary trigger has only an emitter."""
    config = dataclasses.replace(SHORT, blue=hulls, red=hulls)

    def allowed(config):
        masks = echelon.versus(config, "heuristic:trivial", 1, "cpu", 0, action="discrete").reset()["agents"]
        return masks["action_mask"].flatten(0, 1).any(0)

    view = echelon.versus(config, "heuristic:trivial", 1, "cpu", 0, action="discrete")
    columns = view.describe()["agents", "action_mask"].columns
    gone = allowed(config) & ~allowed(off(config, switch))
    assert gone.tolist() == [switch in column.switches for column in columns]
    assert gone.any() == (switch == "smoke" or (switch == "ewar" and hulls == ("scout",)))


# Actions


def heard(action, config):
    """Return the decoded orders of both teams' mechs, as one vector per mech."""
    roster = build_roster(config, CPU)
    slots = torch.arange(5).expand(*action.shape[:2], 5) % roster.num_mechs
    orders = actions.decode(action, slots, roster, config.features)
    parts = [torch.as_tensor(part) for part in vars(orders).values()]
    fire = orders.fire.transpose(1, 2)
    return torch.cat([p.flatten(2).float() if p.shape[:2] == action.shape[:2] else fire.float().flatten(2) for p in
                      (part if part.dim() > 2 else part[..., None] for part in parts)], -1)  # fmt: skip


@pytest.mark.parametrize("switch", [None, *SWITCHES])
def test_action_column_is_ignored_exactly_if_its_switch_is_off(switch):
    config = BUSY if switch is None else off(BUSY, switch)
    columns = describe_battle(config)["blue", "action"].columns
    action = torch.rand(64, config.num_mechs, len(columns), generator=torch.Generator().manual_seed(2)) * 2 - 1
    whole = heard(action, config)
    for place, column in enumerate(columns):
        # Among equal preferences the first counts, so use a preference below all others instead of 0.
        without = action.clone()
        without[..., place] = -1.0 if column.name.startswith(("sort", "prefer")) else 0.0
        assert torch.equal(heard(without, config), whole) == (switch in column.switches), column.name


def test_trigger_needs_the_switches_common_to_its_weapons():
    """Of these hulls, only scouts have something on their secondary trigger: an emitter."""
    scouts = dataclasses.replace(SHORT, blue=("scout",), red=("scout",))
    told = {column.name: column.switches for column in describe_battle(scouts)["red", "action"].columns}
    assert told["secondary"] == ("ewar",) and told["special"] == ("smoke",) and told["primary"] == ()
    mixed = {column.name: column.switches for column in describe_battle(SHORT)["red", "action"].columns}
    assert mixed["secondary"] == ()


def test_weapon_for_the_focus_target_needs_target_preference():
    rows = Catalog().weapons
    aimed = dataclasses.replace(rows["laser"], needs=("target", "focus"))
    config = dataclasses.replace(SHORT, catalog=Catalog(weapons={**rows, "laser": aimed}))
    told = {column.name: column.switches for column in describe_battle(config)["outcome", "stats"].columns}
    assert told["shots_laser"] == told["damage_laser"] == ("target_preference",) and told["shots_flamer"] == ()


# Names


def test_control_names_match_the_action_enum():
    assert [feature.name for feature in layout.CONTROL] == [act.name.lower() for act in Act]


@pytest.mark.parametrize("features", [layout.CONTROL, layout.CONTACT, layout.SQUAD, layout.EGO])
def test_parts_and_switches_are_complete(features):
    for feature in features:
        assert len(feature.parts) in (0, feature.width) and set(feature.unswitched) <= set(feature.parts)
        assert set(feature.switches) <= set(SWITCHES)


@pytest.mark.parametrize("config", [EnvConfig.small(), EnvConfig.standard()])
def test_column_names_match_environment_properties(config):
    extra = {"cool": RewardTerm(lambda before, after, ending, sim_model: after.mechs.heat, 0.25)}
    small = dataclasses.replace(config, map_pool=1)
    for env in (EchelonEnv(small, 1, "cpu", 0, extra_rewards=extra), echelon.teams(small, extra_rewards=extra)):
        description = env.describe()
        terms = description["blue", "reward_terms"].columns
        assert tuple(column.name for column in terms) == env.reward_terms == (*TERMS, "cool")
        assert "a term of the user; times 0.25" in terms[-1].meaning
        assert tuple(column.name for column in description["outcome", "stats"].columns) == env.stat_names
    assert tuple(REWARD_MEANINGS) == TERMS


def test_column_names_of_a_tensor_are_unique():
    for leaf in (*describe_battle(BUSY), *echelon.versus(SHORT, state=True).describe()):
        names = [column.name for column in leaf.columns]
        assert len(set(names)) == len(names), leaf.key


# As data and as a page


def test_description_is_json_without_infinities():
    description = describe_battle(SHORT)
    told = json.loads(json.dumps(description.to_json(), allow_nan=False))
    assert told["groups"] == ["blue", "red"] and len(told["leaves"]) == len(description)
    heat = next(leaf for leaf in told["leaves"] if leaf["key"] == ["blue", "observation", "ego"])["columns"]
    assert next(column for column in heat if column["name"] == "jam") == {
        "name": "jam", "unit": "full strength", "low": 0.0, "high": 1.0, "switches": ["ewar"],
        "meaning": "strength of the strongest enemy ECM at its position",
    }  # fmt: skip
    reward = next(leaf for leaf in told["leaves"] if leaf["key"] == ["red", "reward"])
    assert reward["columns"][0]["low"] is None and reward["kind"] == "reward"


def test_unknown_entry_is_named():
    with pytest.raises(KeyError, match=r"no entry \('green',\), expected one of .*'blue', 'action'"):
        _ = describe_battle(SHORT)["green"]


def test_describe_battle_equals_description_of_the_environment():
    assert describe_battle(SHORT) == EchelonEnv(SHORT, 1, "cpu", 0).describe()


def test_columns_page_matches_the_code():
    """Regenerate the page with `python -m echelon describe --markdown > docs/COLUMNS.md`."""
    assert PAGE.read_text() == columns_page("standard", describe_battle(EnvConfig.standard()))
