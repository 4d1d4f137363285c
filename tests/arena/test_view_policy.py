"""Policies of views as team policies: their input equals the view's observation, and their actions are played."""

import dataclasses

import pytest
import torch
from builders import short_battles
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Composite, Unbounded
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import LSTMModule

import echelon
from echelon.agents.heuristic import scripted
from echelon.arena.view_policy import ViewPolicy, form_of_keys, form_of_view, team_policy_of
from echelon.env.discrete import ACTIONS, action_table
from echelon.env.observation.layout import GROUPS, action_width
from echelon.runtime.errors import ConfigError
from echelon.views.group_policy import team_input

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(short_battles(8), blue=("heavy", "light"), red=("heavy", "light"))
WIDTH = action_width(CONFIG.comm_dim)


def module(function, reads, writes):
    return TensorDictModule(function, reads, writes)


def team(view) -> TensorDict:
    """Return the team input of a policy for the blue teams of a view's battles."""
    seen = view.env.last_observation()
    streams = dict(seen["blue", "observation"].items())
    memory = TensorDict({}, [view.num_envs, 2])
    return team_input(streams, seen["blue", "mask"], seen["telemetry"], memory, None)


def decided(policy: ViewPolicy, shown: TensorDict) -> TensorDict:
    """Run a decision, with the memory of new battles by default."""
    if len(shown["memory"].keys()) == 0:
        shown["memory"] = policy.memory_spec().expand(*shown.batch_size).zero()
    return policy(shown)


@pytest.mark.parametrize("observation", ["flat", "structured"])
@pytest.mark.parametrize("view", ["versus", "mechs"])
def test_policy_receives_the_views_observation(view, observation):
    make = getattr(echelon, view)
    env = make(CONFIG, "heuristic:easy", 3, "cpu", 0, side="blue", observation=observation, action="discrete")
    shown = env.reset()
    read = []

    def look(td):
        read.append(td.clone())
        key = ("agents", "action") if view == "versus" else "action"
        return td.set(key, torch.zeros((3, 2), dtype=torch.int64))

    policy = team_policy_of(look, TransformedEnv(env, RewardSum()), CONFIG, CPU)
    assert policy.reads_action_mask
    own = team(env)
    own["action_mask"] = shown["agents", "action_mask"] if view == "versus" else shown["action_mask"]
    decided(policy, own)
    names = ["observation", "mask", "action_mask"]
    keys = [("agents", name) for name in names] if view == "versus" else names
    assert torch.equal(read[0]["telemetry"], shown["telemetry"]) and torch.equal(read[0]["is_init"], shown["is_init"])
    for key in keys:
        assert (read[0][key] == shown[key]).all(), key


def test_actions_of_a_table_are_looked_up_and_numbers_are_clipped():
    env = echelon.mechs(CONFIG, "heuristic:easy", 3, "cpu", 0, side="blue")
    seen = env.reset()["observation"]
    chosen = torch.tensor([[3, 4], [63, 0], [7, 7]])
    discrete = team_policy_of(module(lambda observed: chosen, ["observation"], ["action"]), None, CONFIG, CPU)
    assert torch.equal(decided(discrete, team(env))["action"], action_table(CONFIG.comm_dim, CPU)[chosen])
    assert len(ACTIONS) == 64
    layer = nn.Linear(seen.shape[-1], WIDTH)
    real = team_policy_of(module(layer, ["observation"], ["action"]), None, CONFIG, CPU)
    action = decided(real, team(env))["action"]
    assert torch.equal(action, layer(seen).clamp(-1, 1))


def test_custom_groups_come_from_the_view():
    groups = {"rear": ["agent_1"], "front": ["agent_0"]}
    env = echelon.versus(CONFIG, "heuristic:easy", 3, "cpu", 0, side="blue", group_map=groups)
    shown = env.reset()

    def act(td):
        for number, group in enumerate(groups):
            assert torch.equal(td[group, "observation"], shown[group, "observation"])
            td[group, "action"] = torch.full((3, 1, WIDTH), float(number) / 2)
        return td

    action = decided(team_policy_of(act, env, CONFIG, CPU), team(env))["action"]
    assert (action[:, 1] == 0).all() and (action[:, 0] == 0.5).all()
    both = module(lambda x: (x, x), [("rear", "observation")], [(group, "action") for group in groups])
    with pytest.raises(ConfigError, match=r"acts for the groups rear, front: pass env=, a view of one team"):
        team_policy_of(both, None, CONFIG, CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups_may_have_different_forms(dtype):
    """A flat group with discrete actions is used beside a group of streams with a memory."""
    env = echelon.versus(
        CONFIG,
        "heuristic:easy",
        3,
        "cpu",
        0,
        side="blue",
        groups="mech",
        observation={"agent_0": "structured", "agent_1": "flat"},
        action={"agent_0": "continuous", "agent_1": "discrete"},
        memory={"agent_0": Composite(h=Unbounded((2,))), "agent_1": Composite()},
        dtype=dtype,
    )
    shown, chosen = env.reset(), torch.full((3, 1), 5)
    assert set(env.group_map) == {"agent_0", "agent_1"} and shown["agent_1", "observation"].dtype == dtype

    def act(td):
        read = td.select(*shown.keys(True, True), strict=False)
        told = shown.select(*read.keys(True, True))
        assert (read == told).all() and set(read.keys()) == {"agent_0", "agent_1", "telemetry", "is_init"}
        assert read["agent_1", "observation"].dtype == dtype
        assert "action_mask" in td["agent_1"].keys() and "action_mask" not in td["agent_0"].keys()
        td["agent_0", "action"] = torch.full((3, 1, WIDTH), 0.5)
        td["agent_1", "action"] = chosen
        td["next", "agent_0", "memory", "h"] = td["agent_0", "memory", "h"] + 1
        return td

    policy, own = team_policy_of(act, env, CONFIG, CPU), team(env)
    own["action_mask"] = torch.zeros((3, 2, 64), dtype=torch.bool)
    own["action_mask"][:, 1:] = shown["agent_1", "action_mask"]
    after = decided(policy, own)
    assert (after["action"][:, 0] == 0.5).all()
    assert torch.equal(after["action"][:, 1:], action_table(CONFIG.comm_dim, CPU)[chosen])
    assert after["next", "memory", "view", "agent_0", "h"][:, 0].eq(1).all()


def test_view_memory_is_carried_between_decisions():
    spec = Composite(h=Unbounded((2,)))
    env = echelon.versus(CONFIG, "heuristic:easy", 3, "cpu", 0, side="blue", memory=spec)
    env.reset()

    def act(td):
        td["agents", "action"] = torch.zeros((3, 2, WIDTH))
        td["next", "agents", "memory", "h"] = td["agents", "memory", "h"] + 1
        return td

    policy, own = team_policy_of(act, env, CONFIG, CPU), team(env)
    for expected in (1, 2):
        own = decided(policy, own)
        assert (own["next", "memory", "view", "agents", "h"] == expected).all()
        own["memory"] = own["next", "memory"]


def test_recurrent_states_of_torchrl_are_carried():
    env = echelon.mechs(CONFIG, "heuristic:easy", 3, "cpu", 0, side="blue")
    flat = env.reset()["observation"]
    memory = LSTMModule(flat.shape[-1], WIDTH, in_key="observation", out_key="action")
    policy, own = team_policy_of(memory, None, CONFIG, CPU), team(env)
    assert set(policy.memory_spec()["carried"].keys()) == {"recurrent_state_h", "recurrent_state_c"}
    state = None
    rows = flat.view(6, 1, -1)
    for _ in range(3):
        own = decided(policy, own)
        own["memory"] = own["next", "memory"]
        expected, state = memory.lstm(rows, state)
        torch.testing.assert_close(own["action"].flatten(0, 1), expected[:, 0].clamp(-1, 1))


def test_team_policy_is_returned_unchanged():
    commander = scripted("heuristic:hard", CONFIG, CPU)
    assert team_policy_of(commander, None, CONFIG, CPU) is commander

    def own(team):
        return team

    assert team_policy_of(own, None, CONFIG, CPU) is own


@pytest.mark.parametrize("what", ["no view", "both teams", "not callable"])
def test_policy_without_a_form_is_rejected(what):
    env = {"both teams": echelon.teams(CONFIG, 1, "cpu"), "no view": echelon.EchelonEnv(CONFIG, 1, "cpu")}.get(what)
    policy = 3 if what == "not callable" else (lambda td: td)
    message = "policy must be a name, a path, a module" if what == "not callable" else "env must be a view of one"
    with pytest.raises(ConfigError, match=message):
        team_policy_of(policy, env, CONFIG, CPU)


def test_the_form_follows_from_keys():
    flat = form_of_keys(
        module(nn.Identity(), [("agents", "observation"), ("agents", "action_mask")], [("agents", "action")])
    )
    assert set(flat.groups) == {"agents"} and flat.groups["agents"].is_flat and flat.has_mask
    streams = form_of_keys(module(nn.Identity(), [("agents", "observation", "ego")], [("agents", "action")]))
    assert not streams.groups["agents"].is_flat
    assert form_of_keys(module(nn.Identity(), [("observation", "ego")], ["action"])) is None
    assert form_of_view(echelon.mechs(CONFIG, "heuristic:easy", 1, "cpu")).is_grouped is False
    assert set(GROUPS) == {"blue", "red"}
