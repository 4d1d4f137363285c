"""Gunnery of scripted commanders: which guns fire at a target within the heat budget, and when a mech vents (cools)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from echelon.agents.tiers import Tier
from echelon.agents.view import Target, View, by_hull, hull_table
from echelon.rules.catalog import KINETIC_AIM_FOCUS_RAD, Hull, Trigger
from echelon.rules.config import EnvConfig
from echelon.rules.specs import HullSpec, WeaponSpec
from echelon.runtime import exact
from echelon.runtime.geometry import TINY, length

STREAM_S = 0.25
"""A beam with at most this cooldown counts as a stream."""
BETTER = 1.5
"""A gun is better than another if its damage per heat is at least this many times as large."""


class Loadout:
    """The weapons of a chassis class (scout, light, medium or heavy) in the catalog.

    An observation contains a mech's class but not its hull (chassis model), so the first hull of the class in the
    rosters represents every hull of that class.
    """

    def __init__(self, kind: Hull, config: EnvConfig) -> None:
        catalog = config.catalog
        hulls = (*config.blue, *config.red, *catalog.hulls)
        name = next(hull for hull in hulls if catalog.class_of(hull) == kind)
        self.hull: HullSpec = catalog.hulls[name]
        self.guns: dict[Trigger, WeaponSpec] = {}
        """By trigger, the weapon with the longest range that fires at targets."""
        self.launchers: dict[Trigger, WeaponSpec] = {}
        """By trigger, the weapon that leaves a cloud."""
        for weapon in sorted(catalog.carried(name).values(), key=lambda weapon: weapon.range_vox):
            hangs = self.launchers if weapon.effect == "cloud" else self.guns
            hangs[Trigger[weapon.mounts[name].upper()]] = weapon

    @property
    def reach_vox(self) -> float:
        """Longest range, in voxels, among the guns that need no lock."""
        return max((gun.range_vox for gun in self.guns.values() if "lock" not in gun.needs), default=0.0)

    def has_better(self, trigger: Trigger) -> bool:
        """Return whether another gun deals more than `BETTER` times the damage per heat of the gun on this trigger."""
        current = worth(self.guns[trigger])
        return current > 0 and any(worth(gun) > BETTER * current for gun in self.guns.values())


def loadouts(config: EnvConfig) -> dict[Hull, Loadout]:
    return {kind: Loadout(kind, config) for kind in Hull}


def worth(weapon: WeaponSpec) -> float:
    """Return the damage per point of heat."""
    return weapon.damage / max(weapon.self_heat, 1.0)


def is_stream(weapon: WeaponSpec | None) -> bool:
    """Return whether a weapon is a damage beam with almost no cooldown."""
    return weapon is not None and weapon.is_beam and weapon.effect == "damage" and weapon.cooldown_s <= STREAM_S


GUNS = (Trigger.SPECIAL, Trigger.TERTIARY, Trigger.SECONDARY, Trigger.PRIMARY)
"""The triggers of guns; on every class, the gun with the most damage per heat comes first."""
HEAT_CEILING = 0.92
"""Share of the heat capacity up to which guns may fire. The rest is a margin for heat from enemies."""
RESERVE_CEILING = 0.6
"""The ceiling of the primary gun in a class with a better gun, which needs the remaining heat."""
COOL_HEAT = 0.1
"""Share of the heat capacity below which a mech does not vent."""
CYCLE_HEAT = 0.35
"""Share of the heat capacity above which a mech vents while its guns reload."""
BURN_HEAT = 0.7
"""The same for a stream, where venting costs half of its fire."""
HOLD_FIRE_HEAT = 0.8
"""Share above which tiers that do not rank guns by heat release every trigger."""
VENT_HEAT = 0.6
"""Share above which these tiers vent."""
LINED_UP = 0.95
"""Cosine of the largest bearing at which these tiers fire guns."""
NEAR_MISS = 1.2
"""A gun fires if the target moves at most this many of its radii during the shot's flight."""


@dataclass(frozen=True)
class Fire:
    """Trigger and vent decisions. G is the number of triggers on which at least one class has a gun."""

    guns: Tensor
    """[B, A, G] bool: triggers pulled."""
    vents: Tensor
    """[B, A] bool."""


@dataclass(frozen=True)
class Battery:
    """Properties of the guns on each mech's G triggers, `[B, A, G]` per field; the range is 0 for a trigger without
    a gun."""

    range_vox: Tensor
    arc_cos: Tensor
    speed: Tensor
    """vox/s of the shot, 0 for a beam."""
    homes: Tensor
    """bool: guided."""
    cost: Tensor
    """Share of the heat capacity that one decision of fire costs."""
    ceiling: Tensor
    """Share of the heat capacity up to which the gun may fire."""
    cycle_heat: Tensor
    """Share of the heat capacity above which the mech vents while the gun reloads."""
    waits: Tensor
    """bool: on cooldown."""

    @property
    def straight(self) -> Tensor:
        """Whether the gun fires an unguided projectile, which flies straight ahead even without a target, bool."""
        return (self.speed > 0) & ~self.homes


class Gunner(nn.Module):
    """Decide which triggers to pull and whether to vent."""

    facts: Tensor
    radius: Tensor
    streams: Tensor
    is_used: Tensor
    is_secondary: Tensor
    is_tertiary: Tensor

    def __init__(self, tier: Tier, loadouts: Mapping[Hull, Loadout], config: EnvConfig) -> None:
        super().__init__()
        self.tier = tier
        self.sight_lock_vox = config.catalog.sight_lock_vox
        self.triggers = used = tuple(t for t in GUNS if any(t in loadout.guns for loadout in loadouts.values()))
        """The triggers of a `Fire`, in its order."""
        decision_s = config.rules.decision_s
        tables = {
            "facts": hull_table(
                {h: [gun_facts(kit, t, decision_s) for t in self.triggers] for h, kit in loadouts.items()}
            ),
            "radius": hull_table({h: max(kit.hull.size) / 2 for h, kit in loadouts.items()}),
            "streams": hull_table({h: float(is_stream(kit.guns.get(Trigger.PRIMARY))) for h, kit in loadouts.items()}),
            "is_used": torch.tensor([trigger in tier.triggers for trigger in used], device="cpu"),
            "is_secondary": torch.tensor([trigger == Trigger.SECONDARY for trigger in used], device="cpu"),
            "is_tertiary": torch.tensor([trigger == Trigger.TERTIARY for trigger in used], device="cpu"),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, view: View, target: Target) -> Fire:
        """Return the fire decision of `[B, A]` mechs."""
        battery = self.man(view)
        aims = self.will_hit if self.tier.takes_aim else self.reaches
        wanted = aims(view, target, battery) & self.is_used
        if self.tier.burns:
            # A hot mech in range of its stream (a beam that fires continuously) saves its heat for this weapon.
            burns = (view.of_hull(self.streams) > 0) & (view.heat > CYCLE_HEAT) & wanted[..., -1]
            wanted = wanted & ~(burns[..., None] & self.is_secondary)
        return cycle(view, battery, wanted) if self.tier.cycles else self.hold(view, wanted)

    def man(self, view: View) -> Battery:
        range_vox, arc_cos, speed, homes, cost, ceiling, cycle_heat = view.of_hull(self.facts).unbind(-1)
        on_cooldown = torch.stack([view.cooldown[..., int(trigger)] > 0 for trigger in self.triggers], -1)
        return Battery(range_vox, arc_cos, speed, homes > 0, cost, ceiling, cycle_heat, on_cooldown)

    def reaches(self, view: View, target: Target, battery: Battery) -> Tensor:
        """Return whether the target is in range of each gun, `[B, A, G]` bool; guided weapons reach only as far as a
        lock by sight, unless a packmate paints the target."""
        sight_lock = battery.range_vox.clamp_max(self.sight_lock_vox)
        range_vox = torch.where(battery.homes, sight_lock, battery.range_vox)
        in_reach = target.exists[..., None] & (target.distance[..., None] <= range_vox)
        if self.tier.shares_paint:
            in_reach = in_reach | (battery.homes & (target.exists & target.painted)[..., None])
        if self.tier.lines_up:
            # Unguided shots and weapons of the third trigger fly straight ahead: the target must be ahead and visible.
            lined_up = target.clear & (target.offset[..., 0] > LINED_UP * length(target.offset[..., :2]))
            in_reach = in_reach & (lined_up[..., None] | ~(self.is_tertiary | battery.straight))
        return in_reach

    def will_hit(self, view: View, target: Target, battery: Battery) -> Tensor:
        """Return whether each gun's shot will hit, `[B, A, G]` bool: an unguided projectile must hit the target; a
        beam or a guided weapon may hit any hostile."""
        contacts = view.contacts
        ground_distance = length(contacts.offset[..., :2])
        distance = contacts.distance[..., None, :]
        in_arc = contacts.offset[..., None, :, 0] >= battery.arc_cos[..., None] * ground_distance[..., None, :]
        homes = battery.homes[..., None]
        in_sight = contacts.clear[..., None, :] & (~homes | (distance <= self.sight_lock_vox))
        locked = in_sight | (homes & contacts.painted[..., None, :])
        in_range = distance <= battery.range_vox[..., None]
        meets_hostile = (contacts.hostile[..., None, :] & in_range & in_arc & locked).any(-1)

        tolerance = exact.sine_64(KINETIC_AIM_FOCUS_RAD, 0.0) * length(target.offset[..., :2])
        is_ahead = (target.offset[..., 0] > 0) & (target.offset[..., 1].abs() <= tolerance)
        shootable = (target.exists & target.clear & is_ahead)[..., None] & (
            target.distance[..., None] <= battery.range_vox
        )
        return torch.where(battery.straight, shootable & self.arrives(target, battery), meets_hostile)

    def arrives(self, target: Target, battery: Battery) -> Tensor:
        """Return whether the target moves too little during each shot's flight to dodge the shot, `[B, A, G]` bool."""
        offset, velocity = target.offset[..., :2], target.velocity
        sideways = offset[..., 0] * velocity[..., 1] - offset[..., 1] * velocity[..., 0]
        across = sideways.abs() / length(offset).clamp_min(TINY)  # vox/s
        flight_s = target.distance[..., None] / battery.speed.clamp_min(1.0)
        return across[..., None] * flight_s <= NEAR_MISS * by_hull(target.hull, self.radius)[..., None]

    def hold(self, view: View, wanted: Tensor) -> Fire:
        """Pull all `wanted [B, A, G]` triggers, or none while the mech is hot, if the tier has `minds_heat`."""
        vents = (view.heat > VENT_HEAT) & ~wanted.any(-1) & self.tier.vents
        if self.tier.minds_heat:
            wanted = wanted & (view.heat < HOLD_FIRE_HEAT)[..., None]
        return Fire(wanted, vents)


def cycle(view: View, battery: Battery, wanted: Tensor) -> Fire:
    """Fire the `wanted [B, A, G]` guns, most damage per heat first, up to their heat limits; vent if no gun fires.

    While its guns reload, a warm mech releases their triggers so that it can vent, which triples its cooling.
    """
    warm = view.heat[..., None] > battery.cycle_heat
    can_fire = wanted & ~(battery.waits & warm)
    heat, fired = view.heat, []
    for gun in range(wanted.shape[-1]):
        heat_after = heat + battery.cost[..., gun]
        fires = can_fire[..., gun] & (heat_after < battery.ceiling[..., gun])
        heat = torch.where(fires, heat_after, heat)
        fired.append(fires)
    guns = torch.stack(fired, -1)
    return Fire(guns, ~guns.any(-1) & (view.heat > COOL_HEAT))


def gun_facts(loadout: Loadout, trigger: Trigger, decision_s: float) -> list[float]:
    """Return one gun's values for the fields of a `Battery`, in order and without `waits`, which changes over time."""
    spec = loadout.guns.get(trigger)
    if spec is None:
        return [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    cost = math.ceil(decision_s / max(spec.cooldown_s, TINY)) * spec.self_heat / loadout.hull.heat_cap
    homes = float("lock" in spec.needs)
    cycle_heat = BURN_HEAT if is_stream(spec) else CYCLE_HEAT
    ceiling = RESERVE_CEILING if trigger == Trigger.PRIMARY and loadout.has_better(trigger) else HEAT_CEILING
    return [spec.range_vox, spec.arc_cos, spec.speed_vox_per_s, homes, cost, ceiling, cycle_heat]
