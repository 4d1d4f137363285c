"""What tests of the learner share."""

import pytest
from tiny_runs import make_rollout

from echelon.learn.ppo.collector import TeamCollector


@pytest.fixture
def rollout() -> TeamCollector:
    """Six short battles against the heuristic, 16 decisions an iteration in sequences of 8."""
    return make_rollout()
