"""Echelon: mech battles for multi-agent reinforcement learning, batched on the device."""

from echelon.runtime.interrupts import end_while_importing

end_while_importing()  # The imports below take seconds.

from echelon.env.env import EchelonEnv  # noqa: E402
from echelon.env.reward import RewardTerm  # noqa: E402
from echelon.env.views import mechs, teams, versus  # noqa: E402
from echelon.rules.catalog import Catalog  # noqa: E402
from echelon.rules.catalog_json import read_catalog  # noqa: E402
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig  # noqa: E402
from echelon.rules.specs import HullSpec, WeaponSpec  # noqa: E402
from echelon.runtime.version import VERSION as __version__  # noqa: E402
from echelon.world.biomes import register_biome  # noqa: E402

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
