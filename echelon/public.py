"""The public names of `echelon`, which imports this module when the first of them is asked for."""

from echelon.env.env import EchelonEnv
from echelon.env.make import make, register_view
from echelon.env.reward import RewardTerm
from echelon.env.tasks import Protocol, Task, latest, register_task, tasks
from echelon.env.views import mechs, teams, versus
from echelon.rules.catalog import Catalog
from echelon.rules.catalog_json import read_catalog
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig
from echelon.rules.specs import HullSpec, WeaponSpec
from echelon.world.biomes import register_biome

__all__ = [
    "Catalog",
    "EchelonEnv",
    "EnvConfig",
    "FeaturesConfig",
    "HullSpec",
    "Protocol",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "Task",
    "WeaponSpec",
    "WorldConfig",
    "latest",
    "make",
    "mechs",
    "read_catalog",
    "register_biome",
    "register_task",
    "register_view",
    "tasks",
    "teams",
    "versus",
]
