"""The public names of `echelon`, imported on first access to one of them."""
# ruff: noqa: F401

from echelon.command.port import CommandPort
from echelon.env.env import EchelonEnv
from echelon.env.reward import RewardTerm
from echelon.env.tasks.task import Protocol, Task, latest, register_task, tasks
from echelon.rules.catalog import Catalog, read_catalog
from echelon.rules.config import EnvConfig, FeaturesConfig, RewardConfig, WorldConfig
from echelon.rules.orders import CommandConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.position import Box, Objective, Unit
from echelon.rules.scenario import Scenario, read_scenario
from echelon.rules.specs import HullSpec, WeaponSpec
from echelon.scenarios.importers.import_map import import_map
from echelon.scenarios.piece import pieces
from echelon.scenarios.scene import Scene, find_scenario, scenario_names, scene, scene_config
from echelon.views.build import mechs, partners, teams, versus
from echelon.views.commanders import commanders
from echelon.views.make import make, register_view
from echelon.world.biomes import register_biome

# `views` must not import integrations, so these views are registered by module name and imported on first use.
register_view("pettingzoo", "echelon.integrations.pettingzoo:parallel_env", num_envs=None)
register_view("gymnasium", "echelon.integrations.gymnasium:make_vec", num_envs="battles")
