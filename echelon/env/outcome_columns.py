"""The columns of rewards and of a battle's outcome: names, units, ranges, meanings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from echelon.env.description import Column
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import BY_HULL, BY_WEAPON, OF_THE_TEAM, OWN
from echelon.env.switches import Switches, of_weapon
from echelon.rules.catalog import Catalog, Hull

REWARD_MEANINGS = {
    "approach": "walking to the zone: gamma * phi' - phi, phi = - walking distance / longest side of the map",
    "zone": "each decision inside the zone, times its team's zone tick",
    "damage": "each hit point taken from an enemy; in a contested zone times `contested_offence`",
    "kill": "an enemy killed; in a contested zone times `contested_offence`",
    "assist": "a packmate's kill of a target that it painted",
    "death": "its own death; in a contested zone times `contested_death`",
    "terminal": "a battle that terminates: won 1, lost -1, drawn 0, the dead included",
}
STATISTICS: dict[str, tuple[str, str]] = {
    "damage": ("hp", "taken from enemies"),
    "kills": ("mechs", "enemies killed"),
    "team_kills": ("mechs", "own mechs killed"),
    "assists": ("mechs", "kills by packmates of targets that it painted"),
    "intercepts": ("shots", "destroyed by its AMS"),
    "shutdowns": ("times", "overheated"),
    "vent_s": ("mech-seconds", "in which heat was vented"),
    "zone_s": ("mech-seconds", "inside the zone"),
    "bad_actions": ("numbers", "of actions, that were not finite"),
    "deaths": ("mechs", "of its own that died"),
    "knockdowns": ("times", "enemies were knocked down"),
    "leggings": ("times", "enemies' legs were shot off"),
    "paints": ("hits", "of its painters on enemies"),
    "assist_hp": ("hp", "full hit points of targets whose kill was an assist"),
    "paint_damage": ("hp", "that its paint added to the damage of packmates"),
    "intercepted_damage": ("hp", "that direct hits of what its AMS destroyed would have taken"),
    "shots": ("shots", "fired"),
    "hits": ("hits", "direct, on enemies"),
}
"""Unit and meaning of what is summed over a team, or over what one weapon or one class did."""


def reward_columns(weights: Mapping[str, float]) -> tuple[Column, ...]:
    """A column for each term, given its weight."""
    mixed = "mixed with the mean of the team"
    return tuple(
        Column(name, "reward", meaning=f"{REWARD_MEANINGS.get(name, 'a term of the user')}; times {weight:g}, {mixed}")
        for name, weight in weights.items()
    )


def statistics_columns(catalog: Catalog) -> tuple[Column, ...]:
    """A column for each of `outcome.stat_names`, in their order: sums over a team."""

    def column(what: str, by: str = "", where: str = "", switches: Switches = ()) -> Column:
        unit, meaning = STATISTICS[what]
        return Column(f"{what}_{by}" if by else what, unit, 0.0, math.inf, switches, meaning + where)

    by_weapon = (
        column(what, weapon, f"; by the weapon {weapon}", weapon_switches(what, weapon, catalog))
        for what in BY_WEAPON
        for weapon in catalog.weapons
    )
    classes = [hull.name.lower() for hull in Hull]
    by_hull = (column(what, kind, f"; by mechs of the class {kind}") for what in BY_HULL for kind in classes)
    died = (column("deaths", kind, f"; mechs of the class {kind}") for kind in classes)
    return (*map(column, (*OWN, *OF_THE_TEAM)), *by_weapon, *by_hull, *died)


def weapon_switches(what: str, weapon: str, catalog: Catalog) -> Switches:
    """Switches without which a statistic of a weapon is 0; what is 0 anyway, such as the damage of a weapon that does
    none, needs none."""
    spec = catalog.weapons[weapon]
    return of_weapon(spec) if what == "shots" or spec.damage > 0 else ()


def outcome_columns(catalog: Catalog) -> dict[str, tuple[Column, ...]]:
    """The columns of each entry of `outcome`: all 0, and the winner -1, while a battle goes on."""
    return {
        "winner": (Column("winner", "", -1, 2, (), "-1 running, 0 draw, 1 blue, 2 red"),),
        "reason": (Column("reason", "", 0, 3, (), "0 running, 1 elimination, 2 zone, 3 time up"),),
        "score": tuple(Column(team, "s", 0.0, math.inf, (), "of zone control") for team in GROUPS),
        "decisions": (Column("decisions", "decisions", 0, math.inf, (), "that the battle took"),),
        "idle_s": (Column("idle_s", "s", 0.0, math.inf, (), "without damage or score at its end"),),
        "stats": statistics_columns(catalog),
        "won": (Column("won", "flag", 0, 1, (), "the commanded team won"),),
    }
