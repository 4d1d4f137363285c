"""Fixtures for tests of the learner."""

import pytest
from tiny_runs import make_rollout

from echelon.learn.ppo.collector import TeamCollector


@pytest.fixture
def rollout() -> TeamCollector:
    """A rollout of six short battles against the heuristic: 16 decisions, in sequences of 8."""
    return make_rollout()
