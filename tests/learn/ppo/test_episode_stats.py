"""Sums over ended battles are counted for the learner's teams."""

import pytest
import torch
from tensordict import TensorDict
from tiny_runs import make_rollout

from echelon.env.outcome import Winner
from echelon.learn.ppo.episode_stats import EpisodeStats

pytestmark = pytest.mark.quick

DRAW, BLUE, RED = (int(who) for who in (Winner.DRAW, Winner.BLUE, Winner.RED))


def test_episode_sums_count_the_learners_teams():
    """Six battles, with the learner as blue in three and red in three; the last battle of each three continues."""
    assignment = make_rollout().assignment
    stats = EpisodeStats(torch.device("cpu"), assignment, num_terms=2, num_stats=1, by_side=True)
    done = torch.tensor([True, True, False, True, True, False])[:, None]
    blue, red = torch.tensor([1.0, 2, 0, 4, 8, 0]), torch.tensor([16.0, 32, 0, 64, 128, 0])
    outcome = TensorDict(
        winner=torch.tensor([BLUE, RED, DRAW, BLUE, DRAW, DRAW])[:, None],
        stats=torch.stack([blue, red], 1)[..., None],
        decisions=torch.tensor([10, 20, 0, 30, 40, 0])[:, None],
        batch_size=[6],
    )
    after = TensorDict(done=done, outcome=outcome, batch_size=[6])
    returns = torch.tensor([[1.0, 0], [2, 0], [0, 0], [3, 0.5], [4, 0], [0, 0]])
    for times in (1, 2):
        stats.count(TensorDict(batch_size=[6]), after, returns)
        sums = {name: (value / times).tolist() for name, value in stats.sums.items()}
        assert (sums["battles"], sums["won"], sums["lost"], sums["decisions"]) == (4, 1, 2, 100)
        assert (sums["battles_as_blue"], sums["won_as_blue"]) == (2, 1)
        assert (sums["battles_as_red"], sums["won_as_red"]) == (2, 0)
        assert (sums["battles_heuristic"], sums["won_heuristic"]) == (4, 1)
        assert sums["stats"] == [1 + 2 + 64 + 128] and sums["returns"] == [10, 0.5]
    stats.clear()
    assert not any(value.any() for value in stats.sums.values())
