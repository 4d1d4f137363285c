"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.env.env import EchelonEnv
from echelon.env.reward import RewardTerm
from echelon.env.views import mechs, teams, versus
from echelon.rules.catalog import Catalog
from echelon.rules.catalog_json import read_catalog
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig
from echelon.rules.specs import HullSpec, WeaponSpec
from echelon.runtime.version import VERSION as __version__
from echelon.world.biomes import register_biome

__all__ = [
    "Catalog",
    "EchelonEnv",
    "EnvConfig",
    "FeaturesConfig",
    "HullSpec",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "WeaponSpec",
    "WorldConfig",
    "__version__",
    "mechs",
    "read_catalog",
    "register_biome",
    "teams",
    "versus",
]
