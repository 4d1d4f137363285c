"""Triggers and vents: what is worth firing at, and what the heat allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from echelon.agents.tiers import Tier
from echelon.agents.view import Target, View, by_hull, hull_table
from echelon.rules.catalog import (
    HULLS,
    KINETIC_AIM_FOCUS_RAD,
    SIGHT_LOCK_VOX,
    WEAPONS,
    Guidance,
    Hull,
    Timer,
    Trigger,
    Weapon,
)
from echelon.runtime import exact
from echelon.runtime.geometry import TINY, length

GUNS = (Trigger.TERTIARY, Trigger.SECONDARY, Trigger.PRIMARY)
"""The triggers of aimed weapons, on every class the one that makes most of its heat first."""
HEAT_CEILING = 0.92
"""Share of the capacity to which a gun may heat its mech: the rest is for what enemies add."""
RESERVE_CEILING = 0.6
"""The same for the primary of a class with a better gun: room is left for that."""
COOL_HEAT = 0.1
"""Share below which there is nothing to vent."""
CYCLE_HEAT = 0.35
"""Share above which it vents while its guns reload."""
BURN_HEAT = 0.7
"""The same for a flamer, which reloads so fast that it loses half of its fire by that."""
HOLD_FIRE_HEAT = 0.8
"""Share above which those who cannot weigh their guns rest every trigger."""
VENT_HEAT = 0.6
"""Share above which they vent."""
LINED_UP = 0.95
"""Cosine of the bearing within which they fire guns."""
NEAR_MISS = 1.2
"""A gun fires if the target will have moved by no more than so many of its radii."""


@dataclass(frozen=True)
class Fire:
    """What is done with the guns."""

    guns: Tensor
    """[B, A, len(GUNS)] bool: triggers held."""
    vents: Tensor
    """[B, A] bool."""


@dataclass(frozen=True)
class Battery:
    """The guns of each mech, `[B, A, len(GUNS)]`; a range of 0 where nothing hangs on the trigger."""

    range_vox: Tensor
    arc_cos: Tensor
    speed: Tensor
    """vox/s of the shot, 0 for a beam."""
    homes: Tensor
    """bool."""
    cost: Tensor
    """Share of the heat capacity that a decision of fire costs."""
    ceiling: Tensor
    """Share of the heat capacity it may be fired up to."""
    cycle_heat: Tensor
    """Share of the heat capacity above which its mech vents while it reloads."""
    waits: Tensor
    """bool: its timer runs."""

    @property
    def straight(self) -> Tensor:
        """bool: shoots ahead, whether or not somebody is there."""
        return (self.speed > 0) & ~self.homes


class Gunner(nn.Module):
    """When to pull the triggers.

    Args:
        tier: what it knows how to do.
        decision_s: how long a trigger is held.
    """

    facts: Tensor
    timers: Tensor
    radius: Tensor
    is_used: Tensor
    is_secondary: Tensor
    is_tertiary: Tensor

    def __init__(self, tier: Tier, decision_s: float) -> None:
        super().__init__()
        self.tier = tier
        facts = [[gun_facts(hull, trigger, decision_s) for trigger in GUNS] for hull in Hull]
        timers = [[timer_row(hull, trigger) for trigger in GUNS] for hull in Hull]
        tables = {
            "facts": torch.tensor(facts),
            "timers": torch.tensor(timers),
            "radius": hull_table({hull: max(HULLS[hull].size) / 2 for hull in Hull}),
            "is_used": torch.tensor([trigger in tier.triggers for trigger in GUNS]),
            "is_secondary": torch.tensor([trigger == Trigger.SECONDARY for trigger in GUNS]),
            "is_tertiary": torch.tensor([trigger == Trigger.TERTIARY for trigger in GUNS]),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, view: View, target: Target) -> Fire:
        """What `[B, A]` mechs do with their guns."""
        battery = self.man(view)
        aims = self.will_hit if self.tier.takes_aim else self.reaches
        wanted = aims(view, target, battery) & self.is_used
        if self.tier.burns:
            # Up close a warm light leaves its heat to the flamer: what that heats shuts down.
            burns = view.is_a(Hull.LIGHT) & (view.heat > CYCLE_HEAT) & wanted[..., -1]
            wanted = wanted & ~(burns[..., None] & self.is_secondary)
        return cycle(view, battery, wanted) if self.tier.cycles else self.hold(view, wanted)

    def man(self, view: View) -> Battery:
        """Who has which guns."""
        range_vox, arc_cos, speed, homes, cost, ceiling, cycle_heat = view.of_hull(self.facts).unbind(-1)
        waits = exact.sum(view.of_hull(self.timers) * view.cooldown[..., None, :], -1) > 0
        return Battery(range_vox, arc_cos, speed, homes > 0, cost, ceiling, cycle_heat, waits)

    def reaches(self, view: View, target: Target, battery: Battery) -> Tensor:
        """`[B, A, len(GUNS)]` bool: the target is in range; missiles count by their sight lock."""
        sight_lock = battery.range_vox.clamp_max(SIGHT_LOCK_VOX)
        reach = torch.where(battery.homes, sight_lock, battery.range_vox)
        wanted = target.exists[..., None] & (target.distance[..., None] <= reach)
        if self.tier.shares_paint:
            wanted = wanted | (battery.homes & (target.exists & target.painted)[..., None])
        if self.tier.lines_up:
            # Guns on the third trigger shoot straight ahead, also into walls.
            lined_up = target.clear & (target.offset[..., 0] > LINED_UP * length(target.offset[..., :2]))
            wanted = wanted & (lined_up[..., None] | ~self.is_tertiary)
        return wanted

    def will_hit(self, view: View, target: Target, battery: Battery) -> Tensor:
        """`[B, A, len(GUNS)]` bool: the shot will meet its target; aimed weapons take any hostile for that."""
        contacts = view.contacts
        ground = length(contacts.offset[..., :2])
        distance = contacts.distance[..., None, :]
        in_arc = contacts.offset[..., None, :, 0] >= battery.arc_cos[..., None] * ground[..., None, :]
        homes = battery.homes[..., None]
        in_sight = contacts.clear[..., None, :] & (~homes | (distance <= SIGHT_LOCK_VOX))
        locked = in_sight | (homes & contacts.painted[..., None, :])
        in_range = distance <= battery.range_vox[..., None]
        somebody = (contacts.hostile[..., None, :] & in_range & in_arc & locked).any(-1)

        aside = exact.sine_64(KINETIC_AIM_FOCUS_RAD, 0.0) * length(target.offset[..., :2])
        ahead = (target.offset[..., 0] > 0) & (target.offset[..., 1].abs() <= aside)
        shootable = (target.exists & target.clear & ahead)[..., None] & (
            target.distance[..., None] <= battery.range_vox
        )
        return torch.where(battery.straight, shootable & self.arrives(target, battery), somebody)

    def arrives(self, target: Target, battery: Battery) -> Tensor:
        """`[B, A, len(GUNS)]` bool: the target will not have walked out of the way of a shot at it."""
        offset, velocity = target.offset[..., :2], target.velocity
        sideways = offset[..., 0] * velocity[..., 1] - offset[..., 1] * velocity[..., 0]
        across = sideways.abs() / length(offset).clamp_min(TINY)  # vox/s
        flight_s = target.distance[..., None] / battery.speed.clamp_min(1.0)
        return across[..., None] * flight_s <= NEAR_MISS * by_hull(target.hull, self.radius)[..., None]

    def hold(self, view: View, wanted: Tensor) -> Fire:
        """Hold every trigger that is `wanted [B, A, len(GUNS)]`."""
        vents = (view.heat > VENT_HEAT) & ~wanted.any(-1) & self.tier.vents
        if self.tier.minds_heat:
            wanted = wanted & (view.heat < HOLD_FIRE_HEAT)[..., None]
        return Fire(wanted, vents)


def cycle(view: View, battery: Battery, wanted: Tensor) -> Fire:
    """Give the heat to the best of the `wanted [B, A, len(GUNS)]` guns first, and vent when nothing fires.

    A warm mech holds no trigger whose gun reloads: it vents meanwhile, at three times the cooling.
    """
    warm = view.heat[..., None] > battery.cycle_heat
    able = wanted & ~(battery.waits & warm)
    heat, held = view.heat, []
    for gun in range(len(GUNS)):
        after = heat + battery.cost[..., gun]
        fires = able[..., gun] & (after < battery.ceiling[..., gun])
        heat = torch.where(fires, after, heat)
        held.append(fires)
    guns = torch.stack(held, -1)
    return Fire(guns, ~guns.any(-1) & (view.heat > COOL_HEAT))


def main_weapon(hull: Hull, trigger: Trigger) -> Weapon | None:
    """The farthest weapon on a trigger."""
    mounted = [w for w in Weapon if WEAPONS[w].mounts.get(hull) == trigger]
    return max(mounted, key=lambda w: WEAPONS[w].range_vox, default=None)


def longest_range(hull: Hull) -> float:
    """Range of a class's farthest weapon that takes no lock, vox."""
    mains = [main_weapon(hull, trigger) for trigger in GUNS]
    return max(WEAPONS[w].range_vox for w in mains if w is not None and WEAPONS[w].guidance != Guidance.HOMING)


def timer_row(hull: Hull, trigger: Trigger) -> list[float]:
    """One-hot over `Timer`: what a gun waits for between two shots."""
    weapon = main_weapon(hull, trigger)
    return [float(weapon is not None and WEAPONS[weapon].timer == timer) for timer in Timer]


def gun_facts(hull: Hull, trigger: Trigger, decision_s: float) -> list[float]:
    """The fields of a `Battery` that never change, in their order."""
    weapon = main_weapon(hull, trigger)
    if weapon is None:
        return [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    spec = WEAPONS[weapon]
    cost = math.ceil(decision_s / spec.cooldown_s) * spec.self_heat / HULLS[hull].heat_cap
    has_better = trigger == Trigger.PRIMARY and hull in (Hull.MEDIUM, Hull.HEAVY)
    homes = float(spec.guidance == Guidance.HOMING)
    cycle_heat = BURN_HEAT if weapon == Weapon.FLAMER else CYCLE_HEAT
    ceiling = RESERVE_CEILING if has_better else HEAT_CEILING
    return [spec.range_vox, spec.arc_cos, spec.speed_vox_per_s, homes, cost, ceiling, cycle_heat]
