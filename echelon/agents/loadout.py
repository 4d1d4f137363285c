"""What a commander takes each class for: its hull, and the weapon on each of its triggers."""

from __future__ import annotations

from echelon.rules.catalog import Hull, Trigger
from echelon.rules.config import EnvConfig
from echelon.rules.specs import HullSpec, WeaponSpec

STREAM_S = 0.25
"""A beam that fires again within this is a stream."""
BETTER = 1.5
"""A gun is better than another that makes so many times less damage of its heat."""


class Loadout:
    """A class as the catalog arms it. Observations tell classes, not hulls: the first of the rosters stands for all."""

    def __init__(self, kind: Hull, config: EnvConfig) -> None:
        catalog = config.catalog
        hulls = (*config.blue, *config.red, *catalog.hulls)
        name = next(hull for hull in hulls if catalog.class_of(hull) == kind)
        self.hull: HullSpec = catalog.hulls[name]
        self.guns: dict[Trigger, WeaponSpec] = {}
        """By trigger what is fired at somebody: its farthest weapon."""
        self.launchers: dict[Trigger, WeaponSpec] = {}
        """By trigger what leaves a cloud."""
        for weapon in sorted(catalog.carried(name).values(), key=lambda weapon: weapon.range_vox):
            hangs = self.launchers if weapon.effect == "cloud" else self.guns
            hangs[Trigger[weapon.mounts[name].upper()]] = weapon

    @property
    def reach_vox(self) -> float:
        """Range of its farthest weapon that takes no lock, vox."""
        return max((gun.range_vox for gun in self.guns.values() if "lock" not in gun.needs), default=0.0)

    def has_better(self, trigger: Trigger) -> bool:
        """Whether another of its guns makes much more damage of the heat."""
        own = worth(self.guns[trigger])
        return own > 0 and any(worth(gun) > BETTER * own for gun in self.guns.values())


def loadouts(config: EnvConfig) -> dict[Hull, Loadout]:
    return {kind: Loadout(kind, config) for kind in Hull}


def worth(weapon: WeaponSpec) -> float:
    """Damage for a point of heat."""
    return weapon.damage / max(weapon.self_heat, 1.0)


def is_stream(weapon: WeaponSpec | None) -> bool:
    """Whether a weapon is a beam that hardly pauses."""
    return weapon is not None and weapon.is_beam and weapon.effect == "damage" and weapon.cooldown_s <= STREAM_S
