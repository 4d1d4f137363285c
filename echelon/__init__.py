"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.env.env import EchelonEnv
from echelon.env.reward import RewardTerm
from echelon.env.views import mechs, teams, versus
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig
from echelon.runtime.version import VERSION as __version__
from echelon.world.biomes import register_biome

__all__ = [
    "EchelonEnv",
    "EnvConfig",
    "FeaturesConfig",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "WorldConfig",
    "__version__",
    "mechs",
    "register_biome",
    "teams",
    "versus",
]
