"""Views: the environment's battles under the keys and shapes that other programs expect."""

import copy
import dataclasses
import functools
import inspect
import io
import itertools
import pickle

import pytest
import torch
from builders import arena
from host_reads import HostReads
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from tiers import usually
from torchrl.data import Composite, Unbounded
from torchrl.envs import MarlGroupMapType, check_env_specs

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.env.discrete import ACTIONS, action_table
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import CommandConfig, EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.views.commanded import AllMechs
from echelon.views.group_policy import GroupPolicy, memory_spec
from echelon.views.transforms import FlatObservation
from echelon.views.view import View

TINY = dataclasses.replace(EnvConfig.small(), map_pool=3, blue=("medium", "light"), red=("medium", "scout"))
SHORT = dataclasses.replace(TINY, rules=RulesConfig(max_episode_s=1.0))
"""Battles of 4 decisions."""
UNEQUAL = dataclasses.replace(SHORT, blue=("medium", "light", "scout"))
GROUPS = ("blue", "red")
WIDTH = layout.action_width(SHORT.comm_dim)
MEMORY = Composite(h=Unbounded((3,)))


def view_of(kind, **kwargs):
    """Return a view of three short battles; `both_teams` is `mechs` without an opponent."""
    if kind == "both_teams":
        return echelon.mechs(SHORT, None, 3, "cpu", 1, **kwargs)
    if kind == "teams":
        return echelon.teams(SHORT, 3, "cpu", 1, **kwargs)
    return getattr(echelon, kind)(SHORT, "heuristic:hard", 3, "cpu", 1, **kwargs)


def cool(before, after, ending, sim_model):
    """Reward for mechs without heat."""
    return after.mechs.heat < 1.0


def pickled(env):
    return pickle.loads(pickle.dumps(env))  # noqa: S301


VIEWS = ("versus", "teams", "mechs", "both_teams")


EVERY_WAY = itertools.product(VIEWS, ("continuous", "discrete", "multi_discrete"), ("flat", "structured"))


@pytest.mark.parametrize(
    ("kind", "action", "observation"),
    usually(
        EVERY_WAY, ("versus", "continuous", "flat"), ("teams", "discrete", "flat"), ("mechs", "discrete", "structured")
    ),
)
def test_specs_are_valid(kind, action, observation):
    view = view_of(kind, action=action, observation=observation, state=True, memory=MEMORY)
    check_env_specs(view, break_when_any_done="both")


def test_keys_and_shapes_of_versus():
    view = view_of("versus", state=True)
    width = FlatObservation.of(EchelonEnv(SHORT, 1, "cpu", 1).reset()["blue", "observation"]).shape[-1]
    td = view.rollout(2)
    assert td["agents", "observation"].shape == (3, 2, 2, width)
    assert td["agents", "action"].shape == (3, 2, 2, WIDTH)
    assert td["next", "agents", "reward"].shape == (3, 2, 2, 1)
    assert td["agents", "mask"].shape == (3, 2, 2) and td["done"].shape == (3, 2, 1)
    assert td["state"].shape == (3, 2, 4 * layout.width(layout.EGO))
    assert td["next", "outcome", "won"].shape == (3, 2, 1)
    assert view.n_agents == 2 and view.max_steps == 4 and view.group_map == {"agents": ["agent_0", "agent_1"]}
    assert view.reward_key == ("agents", "reward") and view.action_key == ("agents", "action")
    assert view.full_action_spec_unbatched[view.action_key].space.low.shape == (2, WIDTH)


def test_keys_and_shapes_of_mechs():
    view = view_of("mechs", state=True)
    td = view.rollout(2)
    assert td.batch_size == (3, 2, 2) and td["observation"].dim() == 4
    assert td["action"].shape == (3, 2, 2, WIDTH) and td["next", "reward"].shape == (3, 2, 2, 1)
    assert td["telemetry"].shape == (3, 2, 2, 16, 16) and td["done"].shape == (3, 2, 2, 1)
    assert view_of("both_teams").rollout(2).batch_size == (3, 4, 2)


def test_groups_of_teams_have_the_given_names():
    view = view_of("teams", groups=("agent", "adversary"))
    assert view.group_map == {"agent": ["agent_0", "agent_1"], "adversary": ["adversary_0", "adversary_1"]}
    assert set(view.reward_keys) == {("agent", "reward"), ("adversary", "reward")}


# The same battles


def actions_of(generator, mechs):
    return torch.rand(3, mechs, WIDTH, generator=generator) * 2 - 1


def random_teams(config, decisions, seed=1):
    """Return an environment's steps with random actions of both teams: each a root and its `next`."""
    env, generator = EchelonEnv(config, 3, "cpu", seed), torch.Generator().manual_seed(3)
    td, steps = env.reset(), []
    for _ in range(decisions):
        for group, names in env.group_map.items():
            td[group, "action"] = actions_of(generator, len(names))
        step, td = env.step_and_maybe_reset(td)
        steps.append(step)
    return steps


@pytest.mark.parametrize("config", [SHORT, UNEQUAL])
def test_teams_view_equals_the_environment(config):
    steps = random_teams(config, 6)
    view, generator = echelon.teams(config, 3, "cpu", 1), torch.Generator().manual_seed(3)
    td = view.reset()
    for expected in steps:
        for group, names in view.group_map.items():
            td[group, "action"] = actions_of(generator, len(names))
        step, td = view.step_and_maybe_reset(td)
        for shown, plain in ((step, expected), (step["next"], expected["next"])):
            for group in GROUPS:
                flat = FlatObservation.of(plain[group, "observation"])
                assert torch.equal(shown[group, "observation"], flat)
                assert torch.equal(shown[group, "mask"], plain[group, "mask"])
            assert torch.equal(shown["telemetry"], plain["telemetry"])
        for group in GROUPS:
            assert torch.equal(step["next", group, "reward"], expected["next", group, "reward"])
        assert torch.equal(step["next", "outcome", "winner"], expected["next", "outcome", "winner"])


@pytest.mark.parametrize("side", usually(("blue", "red", "both"), "both"))
@pytest.mark.parametrize("kind", ["versus", "mechs"])
def test_the_opponent_is_commanded_as_in_the_environment(kind, side):
    """`hard` has memory: it advances in the view as in the environment, and is zero at the start of a battle."""
    view = view_of(kind, side=side)
    is_red = torch.tensor({"blue": [False] * 3, "red": [True] * 3, "both": [False, True, False]}[side])
    opponent = Heuristic(SHORT, "hard")
    env = EchelonEnv(SHORT, 3, "cpu", 1, memory=memory_spec(them=opponent))
    commanders = [GroupPolicy(opponent, group, "them") for group in GROUPS]
    generator = torch.Generator().manual_seed(3)
    seen, td = view.reset(), env.reset()

    def own(values):
        return torch.where(is_red.view(-1, *[1] * (values["blue"].dim() - 1)), values["red"], values["blue"])

    for _ in range(9):
        action = actions_of(generator, 2)
        for commander in commanders:
            td = commander(td)
        for group, is_mine in (("blue", ~is_red), ("red", is_red)):
            td[group, "action"] = torch.where(is_mine[:, None, None], action, td[group, "action"])
        seen["action" if kind == "mechs" else ("agents", "action")] = action
        step, seen = view.step_and_maybe_reset(seen)
        expected, td = env.step_and_maybe_reset(td)
        for mine, theirs in ((step["next"], expected["next"]), (seen, td)):
            team = mine if kind == "mechs" else mine["agents"]
            flat = {group: FlatObservation.of(theirs[group, "observation"]) for group in GROUPS}
            assert torch.equal(team["observation"], own(flat))
            assert torch.equal(team["mask"], own({group: theirs[group, "mask"] for group in GROUPS}))
        paid = step["next"] if kind == "mechs" else step["next", "agents"]
        assert torch.equal(paid["reward"], own({group: expected["next", group, "reward"] for group in GROUPS}))
        terms = {group: expected["next", group, "reward_terms"] for group in GROUPS}
        assert torch.equal(paid["reward_terms"], own(terms))
        assert torch.equal(view.env.state.mechs.pos, env.state.mechs.pos)


def test_groups_only_rename_mechs():
    """Groups may list mechs in any order; actions and observations stay assigned to the right mechs."""
    groups = {"odd": ["blue_1", "red_1"], "even": ["red_0", "blue_0"]}
    view, plain = view_of("teams", group_map=groups), view_of("teams")
    generator = torch.Generator().manual_seed(0)
    td, other = view.reset(), plain.reset()
    for _ in range(5):
        by_name = {name: actions_of(generator, 1)[:, 0] for name in plain.agent_names}
        for env, shown in ((view, td), (plain, other)):
            for group, names in env.group_map.items():
                shown[group, "action"] = torch.stack([by_name[name] for name in names], 1)
        (step, td), (expected, other) = view.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        for key in ("observation", "reward", "mask"):
            assert torch.equal(step["next", "odd", key][:, 1], expected["next", "red", key][:, 1])
            assert torch.equal(step["next", "even", key][:, 0], expected["next", "red", key][:, 0])
            assert torch.equal(step["next", "even", key][:, 1], expected["next", "blue", key][:, 0])


def test_group_maps_of_torchrl():
    one_each = view_of("versus", group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)
    assert one_each.group_map == {"agent_0": ["agent_0"], "agent_1": ["agent_1"]}
    assert one_each.rollout(1)["agent_1", "observation"].shape[:3] == (3, 1, 1)
    whole = view_of("teams", group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    assert whole.rollout(1)["agents", "action"].shape == (3, 1, 4, WIDTH) and whole.n_agents == 4


def test_discrete_action_equals_its_row_of_the_table():
    view, plain = view_of("versus", action="discrete"), view_of("versus")
    assert view.is_discrete and not plain.is_discrete
    table = action_table(SHORT.comm_dim, torch.device("cpu"))
    td, other = view.reset(), plain.reset()
    for t in range(5):
        td["agents", "action"] = chosen = torch.tensor([[t, 60], [7, 61], [62, 63]])
        other["agents", "action"] = table[chosen]
        (step, td), (expected, other) = view.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        assert torch.equal(step["next", "agents", "observation"], expected["next", "agents", "observation"])
        assert step["next", "agents", "action_mask"].shape == (3, 2, len(ACTIONS))


def test_reset_unmasks_weapons():
    view = view_of("versus", action="discrete")
    td = view.reset()
    first = td["agents", "action_mask"]
    for _ in range(3):
        _, td = view.step_and_maybe_reset(view.rand_action(td))
    td["agents", "action"] = torch.full((3, 2), 60)  # all guns, in the last decision
    step, td = view.step_and_maybe_reset(td)
    assert step["next", "done"].all() and torch.equal(td["agents", "action_mask"], first)


def test_state_contains_all_mechs_own_team_first():
    view = view_of("versus", state=True)
    td, env = view.reset(), EchelonEnv(SHORT, 3, "cpu", 1).reset()
    ego = {group: env[group, "observation", "ego"].flatten(1) for group in GROUPS}
    assert torch.equal(td["state"][0], torch.cat((ego["blue"][0], ego["red"][0])))
    assert torch.equal(td["state"][1], torch.cat((ego["red"][1], ego["blue"][1])))


def test_won_refers_to_the_commanded_side():
    maps = arena(SHORT).sim_model.maps
    view = echelon.versus(SHORT, "heuristic:trivial", 2, "cpu", 0, maps=maps)
    td = view.reset()
    view.env.state.mechs.hp[:, 2:] = 0  # blue wins both; the user is blue in the first and red in the second
    step, td = view.step_and_maybe_reset(view.rand_action(td))
    assert step["next", "done"].all() and step["next", "outcome", "winner"].flatten().tolist() == [1, 1]
    assert step["next", "outcome", "won"].flatten().tolist() == [True, False]
    assert not td["outcome", "won"].any()


# Memories and resets


def test_user_memory_is_carried_and_reset():
    view = view_of("versus", memory=MEMORY)
    td, seen = view.reset(), []
    for t in range(6):
        seen.append(td["agents", "memory", "h"][0, 0, 0].item())
        td = view.rand_action(td)
        td["next", "agents", "memory", "h"] = torch.full((3, 2, 3), t + 1.0)
        step, td = view.step_and_maybe_reset(td)
        assert (step["next", "agents", "memory", "h"] == t + 1).all()
    assert seen == [0, 1, 2, 3, 0, 5]


@pytest.mark.parametrize("kind", VIEWS)
def test_partial_reset_keeps_other_battles(kind):
    view = view_of(kind, memory=MEMORY)
    td = view.reset()
    for _ in range(2):
        _, td = view.step_and_maybe_reset(view.rand_action(td))
    which = torch.zeros(*view.batch_size, 1, dtype=torch.bool)
    which[1] = True
    kept = view.env.state.mechs.pos.clone()
    begun = view.reset(TensorDict({"_reset": which}, view.batch_size))
    assert view.env.state.tick.tolist() == [10, 0, 10]
    assert torch.equal(view.env.state.mechs.pos[::2], kept[::2])
    observation = "observation" if view.batch_dims == 2 else (next(iter(view.group_map)), "observation")
    assert torch.equal(begun[observation][::2], td[observation][::2])
    assert not torch.equal(begun[observation][1], td[observation][1])


# Opponents


def test_policy_of_another_comm_dim_is_rejected():
    other = dataclasses.replace(TINY, comm_dim=TINY.comm_dim + 2)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(TINY.comm_dim)).eval()
    words = f"comm_dim must be {other.comm_dim} for this battle, got {TINY.comm_dim}"
    for who, make in (
        ("opponent", lambda: echelon.versus(other, policy)),
        ("opponent", lambda: echelon.versus(other, Heuristic(TINY))),
        ("partner", lambda: echelon.partners(other, policy)),
    ):
        with pytest.raises(ConfigError) as refused:
            make()
        assert str(refused.value) == f"{who}: {words}"
    for width in (other.comm_dim, 0):
        config = dataclasses.replace(TINY, comm_dim=width)
        env = echelon.mechs(config, observation="structured", memory=policy.memory_spec(), device="cpu")
        words = f"^comm_dim: expected {TINY.comm_dim}, that of the policy, got {width} in the battles$"
        with pytest.raises(ConfigError, match=words):
            policy.get_policy_operator()(env.reset())


def test_opponent_in_training_mode_is_rejected():
    """It also applies to submodules in training mode and TorchRL modules; modules without parameters have no mode."""
    ours = LSTMConfig(hidden=16).build(PolicySpecs(SHORT.comm_dim))
    layers = torch.nn.Sequential(torch.nn.Linear(2, WIDTH), torch.nn.Dropout(0.5)).eval()
    layers[1].train()
    commanded = dataclasses.replace(TINY, command=CommandConfig(enabled=True))
    opponent = "opponent: must be in evaluation mode for a match, got training mode: call policy.eval()"
    for make, said in (
        (lambda policy: echelon.versus(TINY, policy), opponent),
        (lambda policy: echelon.mechs(TINY, policy), opponent),
        (lambda policy: echelon.partners(TINY, "heuristic", opponent=policy), opponent),
        (lambda policy: echelon.partners(TINY, policy), opponent.replace("opponent", "partner")),
        (lambda policy: echelon.commanders(commanded, "heuristic", policy), opponent),
        (lambda policy: echelon.commanders(commanded, policy), opponent.replace("opponent", "subordinates")),
    ):
        for policy in (ours, TensorDictModule(layers, ["observation"], ["action"])):
            with pytest.raises(ConfigError) as refused:
                make(policy)
            assert str(refused.value) == said
    echelon.versus(TINY, ours.eval(), device="cpu")
    echelon.versus(TINY, Heuristic(TINY).train(), device="cpu")


def test_trained_opponent_samples_from_the_battle_seed():
    """The actions depend neither on torch's generator nor on the number of battles."""
    torch.manual_seed(0)
    opponent = LSTMConfig(hidden=16).build(PolicySpecs(SHORT.comm_dim)).eval()
    seeds = torch.tensor([5, 6, 7])
    finals = []
    for number, chosen in ((0, seeds), (1, seeds), (2, seeds[:1])):
        torch.manual_seed(number)
        view = echelon.versus(TINY, opponent, len(chosen), "cpu", chosen, side="blue")
        td = view.reset()
        for _ in range(4):
            td["agents", "action"] = torch.zeros(len(chosen), 2, WIDTH)
            _, td = view.step_and_maybe_reset(td)
        finals.append(view.env.state.mechs.pos[:1])
    assert torch.equal(finals[0], finals[1])
    torch.testing.assert_close(finals[0], finals[2])


class Idle:
    """A policy without memory, as a user might write it."""

    def __call__(self, team):
        return team.set("action", torch.zeros(*team.shape, WIDTH))


def test_an_opponent_may_be_any_function_of_a_team():
    view = echelon.versus(SHORT, Idle(), 2, "cpu", 0)
    check_env_specs(view)


# Mistakes


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda team: None, "opponent must return the team it was given"),
        (lambda team: team, "action of the opponent must be a float32 tensor, got NoneType"),
        (lambda team: team.set("action", torch.zeros(*team.shape, 3)), "action of the opponent must be of shape"),
        (lambda team: team.set("action", torch.zeros(*team.shape, 1)), "action of the opponent must be of shape"),
    ],
)
def test_opponent_must_return_its_team_with_actions(decide, message):
    view = echelon.versus(SHORT, decide, 2, "cpu", 0)
    with pytest.raises(ConfigError, match=message):
        view.rollout(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: echelon.versus(SHORT, side="green"), "side must be both, blue or red, got 'green'"),
        (lambda: echelon.versus(UNEQUAL), "side must be blue or red for teams of 3 and 2 mechs, got 'both'"),
        (lambda: echelon.versus(SHORT, "heuristic:best"), "scripted commander must be heuristic:trivial"),
        (lambda: view_of("versus", observation="vector"), "observation must be flat or structured, got 'vector'"),
        (
            lambda: view_of("mechs", action="onehot"),
            "continuous, discrete or multi_discrete, got 'onehot'",
        ),
        (lambda: view_of("teams", groups=("a", "a")), "groups must be two different names"),
        (lambda: view_of("versus", group_map={"a": ["agent_0"]}), "group_map must be each of agent_0, agent_1 in one"),
        (lambda: view_of("versus", group_map={"a": ["agent_0", "agent_1"], "b": []}), "group_map must be"),
    ],
)
def test_settings_out_of_range_raise_one_line(make, message):
    with pytest.raises(ConfigError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_missing_or_misshapen_action_raises_one_line():
    view = view_of("teams")
    td = view.reset()
    td["blue", "action"] = torch.zeros(3, 2, WIDTH)
    with pytest.raises(ConfigError, match=r"\('red', 'action'\) is missing"):
        view.step(td)
    td["red", "action"] = torch.zeros(3, 2, 4)
    with pytest.raises(ConfigError, match=rf"\('red', 'action'\) must have shape \(3, 2, {WIDTH}\), got \(3, 2, 4\)"):
        view.step(td)
    discrete = view_of("versus", action="discrete")
    td = discrete.reset()
    td["agents", "action"] = torch.zeros(3, 2)
    with pytest.raises(ConfigError, match=r"must be int64, an index of 64 actions, got torch\.float32"):
        discrete.step(td)


def test_the_environment_of_a_view_has_no_memory_of_its_own():
    env = EchelonEnv(SHORT, 1, "cpu", 0, memory=MEMORY)
    everyone = AllMechs(env.agent_names, 2)
    with pytest.raises(ConfigError, match="env must be an environment without memory"):
        View(env, everyone, None, env.group_map)


def test_memory_is_kept_if_the_caller_omits_it():
    view = view_of("versus", memory=MEMORY)
    td = view.rand_action(view.reset())
    td["next", "agents", "memory", "h"] = torch.ones(3, 2, 3)
    _, td = view.step_and_maybe_reset(td)
    bare = TensorDict(
        {"agents": TensorDict({"action": td["agents", "mask"][..., None] * torch.zeros(WIDTH)}, [3, 2])}, [3]
    )
    assert (view.step(bare)["next", "agents", "memory", "h"] == 1).all()


# Courtesies


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_copy_continues_the_same_battles(kind, copied):
    view = view_of(kind)
    td = view.reset()
    _, td = view.step_and_maybe_reset(view.rand_action(td))
    goes_on_alike(view, copied(view), td.clone(), td.clone())


def goes_on_alike(view, other, mine, theirs):
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        for key in view.action_keys:
            mine[key] = theirs[key] = torch.rand(mine[key].shape, generator=generator) * 2 - 1
        (_, mine), (_, theirs) = view.step_and_maybe_reset(mine), other.step_and_maybe_reset(theirs)
    for key in mine.keys(True, True):
        assert torch.equal(mine[key], theirs[key]), key


@pytest.mark.parametrize("kind", VIEWS)
def test_state_dict_restores_the_same_battles(kind):
    view = view_of(kind, memory=MEMORY)
    td = view.rand_action(view.reset())
    key = next(key for key in td.keys(True, True) if "h" in key)
    td["next"] = TensorDict({key: torch.ones_like(td[key])}, td.shape)
    _, td = view.step_and_maybe_reset(td)
    file = io.BytesIO()
    torch.save(view.state_dict(), file)
    file.seek(0)
    other = view_of(kind, memory=MEMORY, maps=view.env.sim_model.maps)
    other.rollout(2)
    other.load_state_dict(torch.load(file, weights_only=False))
    seen = other.last_observation()
    assert (seen[key] == 1).all()
    goes_on_alike(view, other, td.clone(), seen)


def test_state_dict_contains_opponent_memory_and_weights():
    opponents = [LSTMConfig(hidden=16).build(PolicySpecs(SHORT.comm_dim)).eval() for _ in range(2)]
    view, other = (echelon.versus(TINY, opponent, 2, "cpu", 1) for opponent in opponents)
    td = view.rand_action(view.rollout(3)[:, -1]["next"])
    other.load_state_dict(view.state_dict())
    assert all(torch.equal(*pair) for pair in zip(*(each.parameters() for each in opponents), strict=True))
    goes_on_alike(view, other, td.clone(), other.last_observation())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda saved: saved.pop("memories"), "state_dict: memories must be a TensorDict of 3 battles, got None"),
        (lambda saved: saved.update(memories=saved["memories"][:2]), "state_dict: memories must be a TensorDict of 3"),
        (lambda saved: saved["memories"].pop(("opponent", "stuck_s")), r"saved: \('opponent', 'stuck_s'\) must be"),
    ],
)
def test_state_dict_of_another_view_is_rejected_without_changes(spoil, message):
    view = view_of("versus")
    saved, before = view.state_dict(), view.state_dict()["battles"]
    view.rollout(2)
    spoil(saved)
    with pytest.raises(ConfigError, match=message):
        view.load_state_dict(saved)
    assert not (view.state_dict()["battles"] == before).all()


@pytest.mark.parametrize("make", [lambda: view_of("versus"), lambda: view_of("mechs"), lambda: view_of("versus").env])
def test_action_of_another_dtype_is_rejected(make):
    env = make()
    for cast in (env.half, env.double, env.bfloat16, lambda: env.type(torch.float16)):
        with pytest.raises(ConfigError, match="dtype of an environment and its opponent must be"):
            cast()
    assert env.float() is env


@pytest.mark.parametrize("kind", VIEWS)
def test_moving_to_a_device_continues_the_same_battles(kind):
    """`cpu:0` differs from `cpu`, so all device tensors are created again."""
    torch.manual_seed(0)
    view, stays = view_of(kind), view_of(kind)
    td, other = view.reset(), stays.reset()
    for t in range(6):
        if t == 2:
            moved = torch.device("cpu", 0)
            assert view.to(moved) is view and view.device == view.env.device == moved
        td = view.rand_action(td)
        for key in view.action_keys:
            other[key] = td[key]
        (_, td), (_, other) = view.step_and_maybe_reset(td), stays.step_and_maybe_reset(other)
    observation = "observation" if view.batch_dims == 2 else (next(iter(view.group_map)), "observation")
    assert torch.equal(td[observation], other[observation])


def test_repr_names_groups_and_policies():
    env = "EchelonEnv(2v2 on 40x40x16, num_envs=3, device=cpu, seed=1)"
    assert repr(view_of("versus")) == f"View(agents, opponent=Heuristic, {env})"
    assert repr(view_of("both_teams")) == f"MechView(agents, {env})"


@pytest.mark.parametrize(
    ("kind", "action"),
    usually(itertools.product(VIEWS, ("continuous", "discrete")), ("versus", "discrete"), ("mechs", "continuous")),
)
def test_step_copies_nothing_to_the_host(kind, action, monkeypatch):
    view = view_of(kind, action=action, state=True, backend="eager")
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    td = view.reset()
    for _ in range(2):
        _, td = view.step_and_maybe_reset(view.rand_action(td))
    td = view.rand_action(td)
    with HostReads() as counter:
        view.step_and_maybe_reset(td)
    assert not counter.reads


@pytest.mark.long
@pytest.mark.parametrize("kind", ["versus", "mechs", "teams"])
def test_a_step_is_one_graph(kind, monkeypatch):
    """Opponent, a decision of one substep and restart are traced without a graph break."""
    monkeypatch.setattr("test_views.SHORT", dataclasses.replace(TINY, rules=RulesConfig(0.25, 1, 0.25)))
    view, eager = (view_of(kind, action="discrete") for _ in range(2))
    td, other = view.rand_action(view.reset()), eager.reset()
    for key in view.action_keys:
        other[key] = td[key]
    step = torch.compile(view.step_and_maybe_reset, fullgraph=True, backend="eager")
    (played, td), (expected, other) = step(td), eager.step_and_maybe_reset(other)
    assert played["next", "done"].all() and td["is_init"].all()
    for found, wanted in ((played["next"], expected["next"]), (td, other)):
        for key in wanted.keys(True, True):
            torch.testing.assert_close(found[key], wanted[key], atol=1e-5, rtol=1e-5)


SCENE = echelon.Scene().place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20))
COMMANDED = dataclasses.replace(SHORT, command=CommandConfig(enabled=True))
MAKERS = {
    "versus": functools.partial(echelon.versus, SHORT),
    "partners": functools.partial(echelon.partners, SHORT),
    "teams": functools.partial(echelon.teams, SHORT),
    "mechs": functools.partial(echelon.mechs, SHORT),
    "commanders": functools.partial(echelon.commanders, COMMANDED),
    "scene": functools.partial(echelon.scene, SCENE.scenario),
    "Scene.env": SCENE.env,
    "style": functools.partial(echelon.style, "heuristic:easy"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_unknown_setting_error_names_function_and_alternative(name):
    for settings, hint in (
        ({"max_cycles": 10}, "Use config.rules.max_episode_s in seconds."),
        ({"comm_dim": 2}, "Use config.comm_dim."),
        ({"devise": "cpu"}, "Did you mean 'device'?"),
    ):
        (setting,) = settings
        with pytest.raises(ConfigError) as refused:
            MAKERS[name](**settings)
        assert str(refused.value) == f"{name} has no setting {setting!r}. {hint}"


def test_unknown_setting_error_lists_the_settings():
    with pytest.raises(ConfigError, match=r"^teams has no setting 'qqq'. It has config, num_envs, .*, extra_rewards.$"):
        echelon.teams(SHORT, qqq=1)


def test_make_error_names_the_view():
    with pytest.raises(
        ConfigError, match=r"versus has no setting 'max_steps'\. Use config\.rules\.max_episode_s in seconds"
    ):
        echelon.make(SCENE.scenario, max_steps=10)


def test_every_public_function_with_further_settings_is_tested():
    """These are the functions of `echelon` with keyword arguments that `make` passes to a view."""
    functions = {name: getattr(echelon, name) for name in echelon.__all__ if inspect.isfunction(getattr(echelon, name))}
    open_ended = {
        name
        for name, function in functions.items()
        if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    }
    assert open_ended == MAKERS.keys() - {"Scene.env"} | {"make"}
