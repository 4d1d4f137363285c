"""The columns of rewards and of a battle's outcome, and the feature switches that columns depend on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from types import SimpleNamespace

from echelon.env.describe.description import Column
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import BY_HULL, BY_WEAPON, OF_THE_TEAM, OWN
from echelon.rules.catalog import Catalog, Hull, Trigger
from echelon.rules.config import EnvConfig, FeaturesConfig
from echelon.rules.specs import WeaponSpec

SWITCH = SimpleNamespace(**{one.name: one.name for one in fields(FeaturesConfig)})
"""Names of the switches."""
Switches = tuple[str, ...]


def of_weapon(spec: WeaponSpec) -> Switches:
    """Switches without which a weapon never fires."""
    clouds = (SWITCH.smoke,) if spec.effect == "cloud" else ()
    waits_for_focus = "target" in spec.needs and "focus" in spec.needs
    return (*clouds, *((SWITCH.target_preference,) if waits_for_focus else ()))


def of_triggers(triggers: Collection[Trigger], config: EnvConfig) -> Switches:
    """Switches without which nothing that hangs on these triggers works, on any hull of the battle."""
    names, catalog = {trigger.name.lower() for trigger in triggers}, config.catalog
    hulls = {*config.blue, *config.red}
    users = [
        of_weapon(spec) for spec in catalog.weapons.values() if any(spec.mounts.get(hull) in names for hull in hulls)
    ]
    emits = Trigger.SECONDARY in triggers and any(catalog.hulls[hull].ewar for hull in hulls)
    return common([*users, (SWITCH.ewar,)] if emits else users)


def of_action_mask(triggers: Collection[Trigger], config: EnvConfig) -> Switches:
    """Switches without which no mask allows an action that holds these triggers. Masks ask for no focus target."""
    return tuple(one for one in of_triggers(triggers, config) if one != SWITCH.target_preference)


def of_cooldown(trigger: Trigger, config: EnvConfig) -> Switches:
    """Switches without which the cooldown that is shown of a trigger stays 0, on any hull of the battle: nothing that
    runs on its timer ever fires."""
    name, catalog = trigger.name.lower(), config.catalog
    users = []
    for hull in sorted({*config.blue, *config.red}):
        carried = catalog.carried(hull).values()
        timers = {spec.timer for spec in carried if spec.mounts[hull] == name}
        users += [of_weapon(spec) for spec in carried if spec.timer in timers]
    return common(users)


def common(users: Iterable[Switches]) -> Switches:
    """What all of them need."""
    needed = list(users)
    return tuple(one for one in vars(SWITCH) if needed and all(one in switches for switches in needed))


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
        "reason": (Column("reason", "", 0, 4, (), "0 running, 1 elimination, 2 zone, 3 time up, 4 objective"),),
        "score": tuple(Column(team, "s", 0.0, math.inf, (), "of zone control, or worth as much") for team in GROUPS),
        "decisions": (Column("decisions", "decisions", 0, math.inf, (), "that the battle took"),),
        "idle_s": (Column("idle_s", "s", 0.0, math.inf, (), "without damage or score at its end"),),
        "stats": statistics_columns(catalog),
        "won": (Column("won", "flag", 0, 1, (), "the commanded team won"),),
    }
