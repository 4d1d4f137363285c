"""What the battles of a replay have in common, in plain words and numbers for whoever draws them."""

from __future__ import annotations

from typing import Any

from echelon.env.observation import layout
from echelon.rules.catalog import CLOUD_VOX, HULLS, WEAPONS, Hull, Material, Suite, Weapon
from echelon.rules.roster import carried
from echelon.sim.model import SimModel


def describe(game: SimModel) -> dict[str, Any]:
    """`Replay.about`, as JSON values."""
    config, roster, world = game.config, game.roster, game.config.world
    team_of = {n: name for name, span in roster.teams.items() for n in range(span.start, span.stop)}
    return {
        "env": config.signature(),
        "dt_s": config.rules.dt_s,
        "decision_repeat": config.rules.decision_repeat,
        "size": [world.size_x, world.size_y, world.size_z],
        "teams": {name: [span.start, span.stop] for name, span in roster.teams.items()},
        "mechs": [mech(n, team_of[n], game) for n in range(roster.num_mechs)],
        "hulls": [hull.name.lower() for hull in Hull],
        "weapons": [weapon.name.lower() for weapon in Weapon],
        "materials": [material.name.lower() for material in Material],
        "weapon_specs": {
            weapon.name.lower(): {"range_vox": spec.range_vox, "arc_deg": spec.arc_deg}
            for weapon, spec in WEAPONS.items()
        },
        "ego": [list(feature) for feature in layout.EGO],
        "stability_cap": config.rules.stability_cap,
        "zone_score_to_win_s": config.rules.zone_score_to_win_s,
        "sight_range_vox": config.sight_range_vox,
        "cloud_vox": CLOUD_VOX,
    }


def mech(n: int, team: str, game: SimModel) -> dict[str, Any]:
    """One mech of the rosters."""
    roster, cockpits = game.roster, game.roster.cockpits
    hull = roster.hulls[n]
    spec = HULLS[hull]
    suite = cockpits.descriptor[n, : len(Suite)]
    return {
        "hull": hull.name.lower(),
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
        "weapons": [weapon.name.lower() for weapon in carried(hull)],
    }
