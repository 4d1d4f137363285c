"""Which feature switches the weapons of a battle, and what shows them, depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from types import SimpleNamespace

from echelon.rules.catalog import Trigger
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
