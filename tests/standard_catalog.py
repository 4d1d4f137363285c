"""The default catalog by name, for tests: enums that index tensors, and its rows."""

from enum import IntEnum

from echelon.rules.catalog import Catalog, Hull, Material, Suite, Trigger
from echelon.rules.catalog_checks import shots_in_flight
from echelon.rules.config import RulesConfig

CATALOG = Catalog()
Weapon = IntEnum("Weapon", [(name.upper(), number) for number, name in enumerate(CATALOG.weapons)])
"""Columns of what is told by weapon."""
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
    """The trigger that fires a weapon, by the class that carries it."""
    return {Hull[hull.upper()]: Trigger[trigger.upper()] for hull, trigger in WEAPONS[weapon].mounts.items()}


TIMER_OF = {weapon: Timer[spec.timer.upper()] for weapon, spec in WEAPONS.items()}
"""What a weapon waits for."""
