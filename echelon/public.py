"""The public names of `echelon`, which imports this module when the first of them is asked for."""

from echelon.env.env import EchelonEnv
from echelon.env.reward import RewardTerm
from echelon.env.tasks.make import make, register_view
from echelon.env.tasks.task import Protocol, Task, latest, register_task, tasks
from echelon.env.views.build import mechs, teams, versus
from echelon.rules.catalog import Catalog
from echelon.rules.catalog_json import read_catalog
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig
from echelon.rules.scenario import Box, Scenario, Unit, read_scenario
from echelon.rules.specs import HullSpec, WeaponSpec
from echelon.scenarios.piece import pieces
from echelon.scenarios.scene import Scene, scene, scene_maps
from echelon.world.biomes import register_biome

__all__ = [
    "Box",
    "Catalog",
    "EchelonEnv",
    "EnvConfig",
    "FeaturesConfig",
    "HullSpec",
    "Protocol",
    "RewardConfig",
    "RewardTerm",
    "RulesConfig",
    "Scenario",
    "Scene",
    "Task",
    "Unit",
    "WeaponSpec",
    "WorldConfig",
    "latest",
    "make",
    "mechs",
    "pieces",
    "read_catalog",
    "read_scenario",
    "register_biome",
    "register_task",
    "register_view",
    "scene",
    "scene_maps",
    "tasks",
    "teams",
    "versus",
]
