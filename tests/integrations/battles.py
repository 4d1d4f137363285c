"""The battles that tests of other frameworks play: 2v2, over after four decisions, or longer."""

import dataclasses

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
