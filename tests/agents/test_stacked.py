"""Networks that run together over stacked weights."""

import pytest
import torch

from echelon.agents import stacked
from echelon.agents.runner import TeamObservation, TeamSeat
from echelon.agents.stacked import StackedForward, StackedPolicies
from echelon.env.env import EchelonEnv
from echelon.learn.models.encoder import GridEncoder
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.rules.config import EnvConfig

pytestmark = pytest.mark.quick
CPU = torch.device("cpu")


def decided(monkeypatch, is_kept: bool) -> tuple[torch.Tensor, int]:
    """Return `loc` of four teams of two networks, and how often constants were computed per decision."""
    config, calls = EnvConfig.small(), []
    if not is_kept:
        monkeypatch.setattr(stacked, "with_constants", torch.nn.Module.state_dict)
    policies = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        policies.append(LSTMConfig(hidden=16).build(PolicySpecs(config.comm_dim)).eval())
    seats = [[TeamSeat(0, 3), TeamSeat(2, 5)], [TeamSeat(1, 3), TeamSeat(3, 0)]]
    teams = StackedPolicies(StackedForward(policies[0], CPU, torch.float32, False, 1), policies, seats, 5)
    constants = GridEncoder.constants
    monkeypatch.setattr(GridEncoder, "constants", lambda self: (calls.append(self), constants(self))[1])
    td = EchelonEnv(config, 2, "cpu", seed=1, backend="eager").reset()
    join, telemetry = (lambda blue, red: torch.cat((blue, red))), torch.cat([td["telemetry"]] * 2)
    observation = TeamObservation.from_groups(td, join, telemetry, None)
    with torch.inference_mode():
        loc, _ = teams.distribution(observation)
    return loc, len(calls)


def test_constants_of_weights_are_computed_once(monkeypatch):
    with monkeypatch.context() as context:
        expected, times = decided(context, is_kept=False)
        assert times == 2, "the maps about mechs, and telemetry"
    loc, times = decided(monkeypatch, is_kept=True)
    assert times == 0 and torch.equal(loc, expected)
