"""Sums over the battles that ended, by hand."""

import torch
from tensordict import TensorDict
from tiny_runs import TINY, short_battles

from echelon.agents.heuristic import Heuristic
from echelon.env.outcome import Winner
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.episode_stats import EpisodeStats


def test_statistics_and_wins_are_those_of_the_learners_side():
    """Of five battles the learner is blue in two and red in three; the last one goes on."""
    env = short_battles()
    assignment = PolicyAssignment(
        TINY.build(PolicySpecs(8)), [OpponentGroup("them", Heuristic(env, "easy"), 5)], side="both"
    )
    ended = EpisodeStats(torch.device("cpu"), assignment, num_terms=1, num_stats=1, by_side=True)
    done = torch.tensor([True, True, True, True, False])[:, None]
    winner = torch.tensor([Winner.BLUE, Winner.BLUE, Winner.RED, Winner.BLUE, -1], dtype=torch.int8)[:, None]
    stats = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [0.0, 0.0]])[..., None]
    outcome = {"winner": winner, "stats": stats, "decisions": 7 * done.long()}
    now, after = TensorDict({}, [5]), TensorDict({"done": done, "outcome": outcome}, [5])
    ended.count(now, after, torch.tensor([[1.0], [1.0], [1.0], [1.0], [0.0]]))
    told = {name: value.tolist() for name, value in ended.sums.items()}
    assert told["stats"] == [1 + 2 + 30 + 40] and told["returns"] == [4] and told["decisions"] == 4 * 7
    assert (told["battles"], told["won"], told["lost"]) == (4, 3, 1)
    assert (told["battles_as_blue"], told["won_as_blue"]) == (2, 2)
    assert (told["battles_as_red"], told["won_as_red"]) == (2, 1)
    assert (told["battles_them"], told["won_them"]) == (4, 3)
