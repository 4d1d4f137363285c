"""Team policies as policies of the whole environment."""

import dataclasses

import pytest
import torch
from builders import brawl
from tensordict import TensorDict

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.mlp import MLPConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import EnvConfig
from echelon.views.group_policy import GroupPolicy, memory_spec, team_view

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2)
MODEL = LSTMConfig(hidden=16)


def policies():
    torch.manual_seed(0)
    return {
        "expert": Heuristic(CONFIG, "expert"),
        "lstm": MODEL.build(PolicySpecs(CONFIG.comm_dim)),
        "feedforward": MLPConfig(hidden=16).build(PolicySpecs(CONFIG.comm_dim)),
    }


def test_all_outputs_of_a_policy_are_written():
    policy = policies()["lstm"]
    env = EchelonEnv(CONFIG, 2, "cpu", 1, memory=memory_spec(mine=policy))
    td = env.reset()
    torch.manual_seed(3)
    expected = policy(team_view(td, "blue", "mine"))
    torch.manual_seed(3)
    decided = GroupPolicy(policy, "blue", "mine")(td)
    for name in ("action", "pre_tanh", "pre_tanh_log_prob", "embed"):
        assert torch.equal(decided["blue", name], expected[name]), name
    for name in ("h", "c"):
        assert torch.equal(decided["next", "blue", "memory", "mine", name], expected["next", "memory", name])
    assert ("red", "action") not in decided.keys(True)


@pytest.mark.parametrize("kind", ["expert", "lstm", pytest.param("feedforward", marks=pytest.mark.long)])
@pytest.mark.parametrize("lead", [(2, 3), pytest.param((6, 1), marks=pytest.mark.long), (3, 1, 2)])
def test_a_policy_takes_any_batch_dimensions_before_the_mechs(kind, lead):
    """Time, battles, processes: the decisions equal those of one team alone."""
    policy, generator = policies()[kind], torch.Generator().manual_seed(0)
    env = EchelonEnv(CONFIG, 6, "cpu", 1)
    td = env.reset()
    for _ in range(8):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    team = team_view(td, "red", "any")
    memory = policy.memory_spec().expand(6, 5).zero().apply(lambda leaf: torch.rand(leaf.shape, generator=generator))
    team.set("memory", memory).set("noise", torch.randn(6, 5, 26, generator=generator))
    flat = policy(team.clone())
    shaped = policy(team.clone().view(*lead, 5))
    for key in flat.keys(True, True):
        torch.testing.assert_close(shaped[key].reshape(flat[key].shape), flat[key], atol=1e-5, rtol=1e-4)
    alone = policy(TensorDict(team[4].to_dict(), [5]))
    torch.testing.assert_close(alone["action"], flat["action"][4], atol=1e-5, rtol=1e-4)
