"""The ground of a recorded battle, made again from its recipe, or of the position in which it began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from echelon.replay.battle import Battle, Replay
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.objective import Objective
from echelon.runtime.files import as_file_error
from echelon.world import recipe
from echelon.world.biomes import quadrants
from echelon.world.objectives import zone_of
from echelon.world.pool import pool_seeds
from echelon.world.written import ground_of

POSITION = "position"
"""The entry of `map` in what is told of a battle: which of the positions of its config it began in, from 0."""


def config_of(replay: Replay) -> EnvConfig:
    """The settings of the battles of a replay."""
    with as_file_error("replay"):
        return env_from_json(replay.about.get("env", {}))


def rebuild(replay: Replay, battle: Battle) -> np.ndarray:
    """`[Z, Y, X]` uint8 materials of the map as the battle began."""
    config = config_of(replay)
    if config.positions:
        return ground_of(config.positions[battle.about["map"][POSITION]], config.world)[0].numpy()
    with as_file_error("replay"):
        maps = recipe.from_json(battle.about["map"]).make(config)
    return maps.material[0].numpy()


def opaque_materials(replay: Replay) -> list[str]:
    """Names of the materials that nobody sees through."""
    catalog = config_of(replay).catalog
    return [material.name.lower() for material in Material if catalog.material(material).opaque]


def objective_of(replay: Replay, battle: Battle) -> Objective:
    """What decides a battle: the objective of the position that it began in, by default the zone."""
    number = battle.about["map"].get(POSITION)
    return Objective() if number is None else config_of(replay).positions[number].objective


def zones_of(replay: Replay, battle: Battle) -> list[list[float]]:
    """x and y of the centre of each zone of a battle, and its radius, vox."""
    circle = objective_of(replay, battle).second_zone
    if not circle:
        return [battle.about["zone"]]
    next_zone = zone_of([circle])
    return [battle.about["zone"], [*next_zone.center_vox[0].tolist(), float(next_zone.radius_vox[0])]]


@dataclass(frozen=True)
class MapName:
    """Which map a battle was on."""

    number: int | None
    """Its place in the pool of maps, or among positions; None of one that was made later, or given."""
    biomes: list[str]
    """Names of its biomes, the largest first; none of ground that somebody has written down."""


def name_map(replay: Replay, battle: Battle) -> MapName:
    """Which map a battle was on, as its recipe and the settings tell; of a position its place among them."""
    config = config_of(replay)
    if config.positions:
        return MapName(battle.about["map"][POSITION], [])
    with as_file_error("replay"):
        seed = recipe.from_json(battle.about["map"]).seed
    names, pool = config.world.biomes, pool_seeds(config, torch.device("cpu")).tolist()
    columns = quadrants(torch.tensor([seed], device="cpu"), config.world).flatten().bincount(minlength=len(names))
    largest_first = columns.argsort(descending=True, stable=True).tolist()
    present = [names[index] for index in largest_first if columns[index] > 0]
    return MapName(pool.index(seed) if seed in pool else None, present)
