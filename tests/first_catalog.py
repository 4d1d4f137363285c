"""A catalog whose numbers never change, for tests of the simulation.

Also its enums and rows by name. Today's numbers are checked by `test_rules.py` and the goldens.
"""

import dataclasses
from enum import IntEnum

from echelon.rules.catalog import Catalog, Hull, Material, Suite, Trigger
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import from_json
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import shots_in_flight

WEAPON_ROWS = {
    "laser": {"range_vox": 8.0, "self_heat": 22.0},
    "flamer": {"range_vox": 4.5, "damage": 5.0, "self_heat": 10.0, "arc_deg": 90.0},
    "missile": {"damage": 40.0, "cooldown_s": 3.0},
    "gauss": {"speed_vox_per_s": 40.0},
    "autocannon": {"speed_vox_per_s": 25.0},
    "painter": {
        "mounts": {"scout": "primary", "light": "tertiary", "medium": "tertiary"},
        "range_vox": 10.0,
        "arc_deg": 60.0,
    },
    "smoke": {"timer": "missile", "cooldown_s": 5.0},
}
"""Fields in which weapons differ from the default catalog."""
NUMBERS = {"paint_bonus": 0.1, "cloud_s": 10.0, "cloud_vox": 4.0}
CATALOG = from_json(Catalog, {"weapons": WEAPON_ROWS, **NUMBERS}, "catalog", Catalog())
SMALL = dataclasses.replace(EnvConfig.small(), catalog=CATALOG)
"""The small preset with this catalog."""
STANDARD = dataclasses.replace(EnvConfig.standard(), catalog=CATALOG)
Weapon = IntEnum("Weapon", [(name.upper(), number) for number, name in enumerate(CATALOG.weapons)])
"""Columns of values by weapon."""
Timer = IntEnum("Timer", [(name.upper(), number) for number, name in enumerate((*CATALOG.timer_names, "ams"))])
"""Columns of cooldowns."""
WEAPONS = {Weapon[name.upper()]: spec for name, spec in CATALOG.weapons.items()}
HULLS = {Hull[name.upper()]: spec for name, spec in CATALOG.hulls.items()}
SUITES = {Suite[name.upper()]: spec for name, spec in CATALOG.suites.items()}
MATERIALS = {Material[name.upper()]: spec for name, spec in CATALOG.materials.items()}
BEAMS = tuple(weapon for weapon, spec in WEAPONS.items() if spec.is_beam)
SHELLS = tuple(weapon for weapon, spec in WEAPONS.items() if not spec.is_beam)
SLOTS = {weapon: shots_in_flight(spec, RulesConfig()) for weapon, spec in WEAPONS.items()}
"""Shots of one mech in flight."""


def mounts(weapon: Weapon) -> dict[Hull, Trigger]:
    """Return the trigger of a weapon, keyed by the class that carries it."""
    return {Hull[hull.upper()]: Trigger[trigger.upper()] for hull, trigger in WEAPONS[weapon].mounts.items()}


TIMER_OF = {weapon: Timer[spec.timer.upper()] for weapon, spec in WEAPONS.items()}
"""The cooldown timer of a weapon."""
