"""What the battles of a replay have in common, in plain words and numbers for whoever draws them."""

from __future__ import annotations

from typing import Any

from echelon.env.observation import layout
from echelon.replay.battle import RECORD
from echelon.rules.catalog import Catalog, Hull, Material, Suite, Trigger
from echelon.rules.objective import Objective
from echelon.sim.model import SimModel


def describe(game: SimModel) -> dict[str, Any]:
    """`Replay.about`, as JSON values."""
    config, roster, world = game.config, game.roster, game.config.world
    team_of = {n: name for name, span in roster.teams.items() for n in range(span.start, span.stop)}
    return {
        "record": RECORD,
        # To play the battle again one needs the maps that it was played on.
        "env": {**config.signature(), "map_seed": config.map_seed, **({"split": config.split} if config.split else {})},
        "dt_s": config.rules.dt_s,
        "decision_repeat": config.rules.decision_repeat,
        "size": [world.size_x, world.size_y, world.size_z],
        "teams": {name: [span.start, span.stop] for name, span in roster.teams.items()},
        "mechs": [mech(n, team_of[n], game) for n in range(roster.num_mechs)],
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


def mech(n: int, team: str, game: SimModel) -> dict[str, Any]:
    """One mech of the rosters."""
    roster, cockpits, catalog = game.roster, game.roster.cockpits, game.catalog
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
    """What pages and pictures tell of each weapon."""
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
    """What each cooldown of the ego stream is called in the cockpit of a hull; empty for those it has no use for."""
    weapons = catalog.carried(hull)
    labels = {trigger.name.lower(): "" for trigger in Trigger}
    for name in sorted(weapons, key=lambda name: weapons[name].effect != "paint"):
        labels[weapons[name].mounts[hull]] = name
    return [*labels.values(), "AMS" if catalog.hulls[hull].ams else ""]


def objective_text(objective: Objective, win_s: float) -> str:
    """What decides a battle beside the death of a team, in words.

    Args:
        win_s: seconds of zone control that win where the objective names none.
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
