"""Battles for tests of other frameworks: 2v2, with four decisions or more."""

import dataclasses

import numpy as np

from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig

LONG = dataclasses.replace(
    EnvConfig.small(),
    map_pool=3,
    blue=("medium", "light"),
    red=("medium", "scout"),
    rules=RulesConfig(max_episode_s=5.0),
)
SHORT = dataclasses.replace(LONG, rules=RulesConfig(max_episode_s=1.0))
UNEQUAL = dataclasses.replace(SHORT, blue=("medium", "light", "scout"))
EASY = "heuristic:easy"


def with_nan(actions):
    """Return two copies of actions `[n, D]`: row 1 has two zeros in one, and NaN and inf in the other."""
    zeroed, bad = actions.copy(), actions.copy()
    zeroed[1, :2], bad[1, :2] = 0.0, (np.nan, np.inf)
    return zeroed, bad
