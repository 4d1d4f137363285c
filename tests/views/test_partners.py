"""The view for ad hoc teamwork: the environment's battles, with a part of a team commanded by a partner."""

import dataclasses

import numpy as np
import pytest
import torch
from host_reads import HostReads
from torchrl.envs import check_env_specs

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import action_width
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.views.group_policy import GroupPolicy, action_noise, memory_spec

ROSTER = ("heavy", "medium", "light", "scout")
SHORT = dataclasses.replace(
    EnvConfig.small(), map_pool=2, blue=ROSTER, red=ROSTER, rules=RulesConfig(max_episode_s=1.0)
)
"""Battles of 4 decisions."""
WIDTH = action_width(SHORT.comm_dim)
SEEDS = torch.tensor([3, 4, 5])
MINE = [0, 2]


def network():
    """Return a policy with large outputs that samples its actions."""
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(SHORT.comm_dim)).eval()
    policy.network.head.loc.weight.data.mul_(50)
    return policy


def noise(env):
    """Return the noise of a policy inside the view, for both teams."""
    decision = env.state.tick // SHORT.rules.decision_repeat
    return action_noise(env.state.seed, decision, 8, WIDTH).split([4, 4], 1)


@pytest.mark.parametrize("side", ["blue", "red", "both"])
def test_partner_view_is_bit_identical_to_the_environment(side):
    """The battles end and restart; the partner is a sampling network, the opponent a network with memory."""
    partner, opponent = network(), Heuristic(SHORT, "expert")
    view = echelon.partners(SHORT, partner, MINE, opponent, 3, "cpu", SEEDS, side=side)
    env = EchelonEnv(SHORT, 3, "cpu", SEEDS, memory=memory_spec(friend=partner, enemy=opponent))
    is_red = torch.tensor([side == "red" or (side == "both" and b % 2 == 1) for b in range(3)])

    def own(blue, red):
        return torch.where(is_red.view(-1, *[1] * (blue.dim() - 1)), red, blue)

    seen, shown = env.reset(), view.reset()
    torch.manual_seed(1)
    for _ in range(6):
        observed = own(seen["blue", "mask"], seen["red", "mask"])
        assert torch.equal(shown["agents", "mask"], observed[:, MINE])
        acted = torch.rand(3, 2, WIDTH) * 2 - 1
        actions = {}
        for group, normals in zip(("blue", "red"), noise(env), strict=True):
            for policy, name in ((partner, "friend"), (opponent, "enemy")):
                td = seen.clone()
                td.set((group, "noise"), normals)
                both = GroupPolicy(WithNoise(policy, normals), group, name)(td)
                actions[group, name] = both[group, "action"]
                seen.set(("next", group, "memory", name), both["next", group, "memory", name])
        for group, at in (("blue", ~is_red), ("red", is_red)):
            mixed = actions[group, "friend"].clone()
            mixed[:, MINE] = acted
            seen.set((group, "action"), torch.where(at[:, None, None], mixed, actions[group, "enemy"]))
        played, seen = env.step_and_maybe_reset(seen)
        stepped, shown = view.step_and_maybe_reset(shown.set(("agents", "action"), acted))
        rewards = own(played["next", "blue", "reward"], played["next", "red", "reward"])
        assert torch.equal(stepped["next", "agents", "reward"], rewards[:, MINE])
        assert torch.equal(stepped["next", "done"], played["next", "done"])
        assert (view.env.state == env.state).all()


class WithNoise:
    """A team policy that receives the noise."""

    def __init__(self, policy, normals):
        self.policy, self.normals = policy, normals

    def memory_spec(self):
        return self.policy.memory_spec()

    def __call__(self, team):
        return self.policy(team.set("noise", self.normals))


@pytest.mark.parametrize("mine", [1, [0, 3]])
def test_specs_are_valid(mine):
    env = echelon.partners(SHORT, "heuristic:easy", mine, "heuristic:hard", 3, "cpu", 1, state=True)
    check_env_specs(env)
    assert env.agent_names == (["agent_0"] if mine == 1 else ["agent_0", "agent_3"])
    assert env.reset()["state"].shape[-1] == env.observation_spec["state"].shape[-1]
    assert "partner=Heuristic" in repr(env)
    groups = echelon.partners(SHORT, "heuristic:easy", [1, 3], groups="class", device="cpu").group_map
    assert groups == {"medium": ["agent_1"], "scout": ["agent_3"]}


def test_make_creates_it_for_a_task():
    env = echelon.make(echelon.latest("small-5v5"), "partners", 1, 0, "cpu", partner="style:rusher", mine=4)
    assert env.n_agents == 4 and env.reset()["agents", "observation"].shape[:2] == (1, 4)


def test_state_dict_restores_battles_and_partners():
    def made(seed):
        return echelon.partners(SHORT, "heuristic:hard", MINE, "heuristic:hard", 2, "cpu", seed)

    def played(env, td):
        for _ in range(3):
            td = env.step_and_maybe_reset(td.set(("agents", "action"), torch.zeros(2, 2, WIDTH)))[1]
        return env.env.state

    first, second = made(1), made(2)
    td = first.reset()
    played(first, td)
    second.reset()
    second.load_state_dict(first.state_dict())
    assert (played(first, first.last_observation()) == played(second, second.last_observation())).all()


def test_step_copies_nothing_to_the_host(monkeypatch):
    env = echelon.partners(SHORT, "heuristic:easy", MINE, "heuristic:easy", 2, "cpu", 1, backend="eager")
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    td = env.reset()
    for _ in range(2):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    td = env.rand_action(td)
    with HostReads() as counter:
        env.step_and_maybe_reset(td)
    assert not counter.reads


def test_numpy_integers_are_accepted():
    for mine, same in ((np.int64(2), 2), ([np.uint8(3), np.int32(0)], [3, 0])):
        env, other = (echelon.partners(SHORT, mine=given, device="cpu", seed=np.int64(1)) for given in (mine, same))
        assert env.agent_names == other.agent_names


@pytest.mark.parametrize(
    "mine", [0, 4, 10**12, np.int64(4), np.bool_(True), True, "01", [], [0, 0], [4], [-1], [0.5], range(4)]
)
def test_invalid_places_are_rejected(mine):
    with pytest.raises(ConfigError, match=r"mine must be 1\.\.3, a number of mechs, or different places among 0\.\.3"):
        echelon.partners(SHORT, mine=mine, device="cpu")


def test_partner_must_be_a_policy():
    with pytest.raises(ConfigError, match="partner must be a name, a path or a team policy"):
        echelon.partners(SHORT, 3, device="cpu")
    with pytest.raises(ConfigError, match="partner must return the team it was given"):
        env = echelon.partners(SHORT, lambda team: None, device="cpu")
        env.step(env.rand_action(env.reset()))
