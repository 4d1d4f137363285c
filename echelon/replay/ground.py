"""Terrain of a recorded battle, rebuilt from its map recipe or its position, and data that a replay's battles share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from echelon.env.observation import layout
from echelon.replay.battle import RECORD, Battle, Replay
from echelon.rules.catalog import Catalog, Hull, Material, Suite, Trigger
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.position import Objective
from echelon.runtime.files import as_file_error
from echelon.sim.model import SimModel
from echelon.world.authored_maps import ground_of, zone_of
from echelon.world.biomes import quadrants
from echelon.world.pool import pool_seeds, recipe_from_json

POSITION = "position"
"""Key of `map` in a battle's metadata: index of its initial position in the config."""


def config_of(replay: Replay) -> EnvConfig:
    """Return the environment config of a replay's battles."""
    with as_file_error("replay"):
        return env_from_json(replay.about.get("env", {}))


def rebuild(replay: Replay, battle: Battle) -> np.ndarray:
    """Return the materials `[Z, Y, X]` uint8 of a battle's map at the start of the battle."""
    config = config_of(replay)
    if config.positions:
        return ground_of(config.positions[battle.about["map"][POSITION]], config.world)[0].numpy()
    with as_file_error("replay"):
        maps = recipe_from_json(battle.about["map"]).make(config)
    return maps.material[0].numpy()


def opaque_materials(replay: Replay) -> list[str]:
    """Return the names of the materials that block sight."""
    catalog = config_of(replay).catalog
    return [material.name.lower() for material in Material if catalog.material(material).opaque]


def objective_of(replay: Replay, battle: Battle) -> Objective:
    """Return the objective of a battle: the one of its initial position, or else zone control."""
    number = battle.about["map"].get(POSITION)
    return Objective() if number is None else config_of(replay).positions[number].objective


def zones_of(replay: Replay, battle: Battle) -> list[list[float]]:
    """Return x and y of the centre and the radius of each zone of a battle, vox."""
    circle = objective_of(replay, battle).second_zone
    if not circle:
        return [battle.about["zone"]]
    next_zone = zone_of([circle])
    return [battle.about["zone"], [*next_zone.center_vox[0].tolist(), float(next_zone.radius_vox[0])]]


@dataclass(frozen=True)
class MapName:
    """Identifies the map of a battle."""

    number: int | None
    """Index in the map pool, or among positions; None for a map that was renewed or passed in."""
    biomes: list[str]
    """Names of its biomes, the largest first; empty for a position."""


def name_map(replay: Replay, battle: Battle) -> MapName:
    """Return the identity of a battle's map, from its recipe and the config, or from its position."""
    config = config_of(replay)
    if config.positions:
        return MapName(battle.about["map"][POSITION], [])
    with as_file_error("replay"):
        seed = recipe_from_json(battle.about["map"]).seed
    names, pool = config.world.biomes, pool_seeds(config, torch.device("cpu")).tolist()
    columns = quadrants(torch.tensor([seed], device="cpu"), config.world).flatten().bincount(minlength=len(names))
    largest_first = columns.argsort(descending=True, stable=True).tolist()
    present = [names[index] for index in largest_first if columns[index] > 0]
    return MapName(pool.index(seed) if seed in pool else None, present)


def describe(sim_model: SimModel) -> dict[str, Any]:
    """Return `Replay.about`, the data that all battles share, as JSON values."""
    config, roster, world = sim_model.config, sim_model.roster, sim_model.config.world
    team_of = {n: name for name, span in roster.teams.items() for n in range(span.start, span.stop)}
    return {
        "record": RECORD,
        # Store the map seed and split, which are needed to play the battle again on the same maps.
        "env": {**config.signature(), "map_seed": config.map_seed, **({"split": config.split} if config.split else {})},
        "dt_s": config.rules.dt_s,
        "decision_repeat": config.rules.decision_repeat,
        "size": [world.size_x, world.size_y, world.size_z],
        "teams": {name: [span.start, span.stop] for name, span in roster.teams.items()},
        "mechs": [mech(n, team_of[n], sim_model) for n in range(roster.num_mechs)],
        "hulls": [hull.name.lower() for hull in Hull],
        "weapons": list(config.catalog.weapons),
        "materials": [material.name.lower() for material in Material],
        "weapon_specs": weapon_specs(config.catalog),
        "ego": [[feature.name, feature.width, feature.low, feature.high] for feature in layout.EGO],
        "stability_cap": config.rules.stability_cap,
        "zone_score_to_win_s": config.rules.zone_score_to_win_s,
        "sight_range_vox": config.sight_range_vox,
        "cloud_vox": config.catalog.cloud_vox,
    }


def mech(n: int, team: str, sim_model: SimModel) -> dict[str, Any]:
    """Return the data of one mech that are constant during the battle."""
    roster, cockpits, catalog = sim_model.roster, sim_model.roster.cockpits, sim_model.catalog
    hull = roster.hulls[n]
    spec = catalog.hulls[hull]
    suite = cockpits.descriptor[n, : len(Suite)]
    return {
        "hull": hull,
        "class": spec.hull_class,
        "team": team,
        "pack": int(roster.pack[n]),
        "size": list(spec.size),
        "hp": spec.hp,
        "leg_hp": spec.leg_hp,
        "heat_cap": spec.heat_cap,
        "suite": Suite(int(suite.argmax())).name.lower() if suite.any() else "none",
        "squad": [m for m in roster.squad[n].tolist() if m < roster.num_mechs],
        "squad_detail": int(cockpits.squad_detail[n]),
        "sees_engaged": bool(cockpits.sees_engaged[n]),
        "weapons": list(catalog.carried(hull)),
        "cooldowns": trigger_labels(hull, catalog),
    }


def weapon_specs(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Return the data of each weapon that pages and pictures need."""
    return {
        name: {
            "range_vox": spec.range_vox,
            "arc_deg": spec.arc_deg,
            "effect": spec.effect,
            "look": spec.drawn_as,
            "colour": spec.colour,
            "damage": spec.damage,
            "self_heat": spec.self_heat,
            "target_heat": spec.target_heat,
        }
        for name, spec in catalog.weapons.items()
    }


def trigger_labels(hull: str, catalog: Catalog) -> list[str]:
    """Return a label for each cooldown in the ego stream of a hull; the label of an unused cooldown is empty."""
    weapons = catalog.carried(hull)
    labels = {trigger.name.lower(): "" for trigger in Trigger}
    for name in sorted(weapons, key=lambda name: weapons[name].effect != "paint"):
        labels[weapons[name].mounts[hull]] = name
    return [*labels.values(), "AMS" if catalog.hulls[hull].ams else ""]


def objective_text(objective: Objective, win_s: float) -> str:
    """Describe in words what decides a battle besides the destruction of a team.

    Args:
        objective: the objective.
        win_s: seconds of zone control that win, if the objective does not set another value.
    """
    acts = objective.attacking
    reacts = "red" if acts == "blue" else "blue"
    control = f"{objective.control_s or win_s:g} s of zone control"
    late = f"after {objective.seconds:g} s" if objective.seconds > 0 else "when time is up"
    runners = f"once {objective.mechs} of its mechs were in the zone"
    return {
        "zone": f"{control} win",
        "hold": f"{acts} wins with {control}, {reacts} {late}",
        "escort": f"{acts} wins when {objective.mech} is in the zone, {reacts} by its death or {late}",
        "breakthrough": f"{acts} wins {runners}, {reacts} when too many have died or {late}",
        "elimination": "only the death of a team decides",
        "king_of_two": f"{control} win, of two zones that count half each",
    }[objective.kind]
