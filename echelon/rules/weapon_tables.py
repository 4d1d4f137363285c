"""The parts of a roster that tell what its hulls carry: equipment, triggers, cooldowns, weapons and shot slots."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Trigger, clouds_hanging
from echelon.rules.catalog_checks import shots_in_flight
from echelon.rules.config import EnvConfig
from echelon.rules.damage_sources import build_aim_table, build_damage_sources
from echelon.rules.specs import WeaponSpec


def equipment_tables(hulls: tuple[str, ...], config: EnvConfig, device: torch.device) -> dict[str, Any]:
    """The fields of a `Roster` that tell what each hull carries, what fires it, and how long it waits."""
    rows, weapons = config.catalog.hulls, config.catalog.weapons.values()
    triggers = [[Trigger[w.mounts[h].upper()] if h in w.mounts else -1 for h in hulls] for w in weapons]
    return {
        "has_ewar": torch.tensor([rows[h].ewar for h in hulls], device=device),
        "ewar": integers([n for n, h in enumerate(hulls) if rows[h].ewar], device),
        "ams": integers([n for n, h in enumerate(hulls) if rows[h].ams], device),
        "trigger": integers([[int(t) for t in row] for row in triggers], device),
        "shown_timer": integers([shown_timers(h, config.catalog) for h in hulls], device),
        "longest_cooldown": integers([longest_cooldowns(h, config) for h in hulls], device),
    }


def weapon_tables(hulls: tuple[str, ...], hostile: Tensor, config: EnvConfig, device: torch.device) -> dict[str, Any]:
    """The fields of a `Roster` that hold a row for every weapon or shot slot; `hostile [N, N]` bool."""
    specs = tuple(config.catalog.weapons.values())
    owners = [[n for n, hull in enumerate(hulls) if hull in spec.mounts] for spec in specs]
    rays = tuple(w for w, spec in enumerate(specs) if spec.is_beam)
    shells = tuple(sorted((w for w in range(len(specs)) if w not in rays), key=lambda w: slot_order(specs[w])))
    slots = [shots_in_flight(spec, config.rules) for spec in specs]
    beams = [(w, n) for w in rays for n in owners[w]]
    shots = [(w, n) for w in shells for n in owners[w] for _ in range(slots[w])]
    rows = [specs[w] for w, _ in shots]
    splashing = run_of([spec.splash_vox > 0 for spec in rows])
    launching = run_of([spec.effect == "cloud" for spec in rows])
    return {
        "guns": build_aim_table(config, owners, hostile),
        "beams": build_damage_sources(beams, config, len(hulls), device),
        "shots": build_damage_sources(shots, config, len(hulls), device),
        "bursts": build_damage_sources(shots[splashing], config, len(hulls), device),
        "rays": rays,
        "shells": shells,
        "painters": tuple(w for w in rays if specs[w].effect == "paint"),
        "splashing": splashing,
        "interceptable": run_of([spec.interceptable for spec in rows]),
        "launching": launching,
        "launchers": integers([n for _, n in shots[launching]], device),
        "clouds_each": max(clouds_hanging(spec, config.catalog, config.rules) for spec in specs),
        "leaves_cloud": flags([spec.effect == "cloud" for spec in specs], device),
        "homing": flags([spec.guidance == "homing" for spec in rows], device),
        "ballistic": flags([spec.guidance == "ballistic" for spec in rows], device),
        "shot_speed": floats([spec.speed_vox_per_s for spec in rows], device),
        "shot_flight_s": floats([spec.lifetime_s for spec in rows], device),
        "slug_speed": floats([[slug_speed(hull, config.catalog)] for hull in hulls], device),
    }


def slot_order(spec: WeaponSpec) -> int:
    """Where the shots of a weapon stand, so that those with a fact in common are one run of slots."""
    if spec.interceptable:
        return 1 if spec.splash_vox > 0 else 0
    return 2 if spec.splash_vox > 0 else 4 if spec.effect == "cloud" else 3


def run_of(facts: list[bool]) -> slice:
    """The one run of slots of which something is true."""
    return slice(facts.index(True), facts.index(True) + sum(facts)) if any(facts) else slice(0, 0)


def slug_speed(hull: str, catalog: Catalog) -> float:
    """Speed of a hull's own falling shot, else of the catalog's first, infinite without any, vox/s."""
    falling = {name: spec for name, spec in catalog.weapons.items() if spec.guidance == "ballistic"}
    mounted = [spec for spec in falling.values() if hull in spec.mounts]
    return next((spec.speed_vox_per_s for spec in (*mounted, *falling.values())), math.inf)


def shown_timers(hull: str, catalog: Catalog) -> list[int]:
    """The timer of what hangs on each trigger of a hull, a painter's only where it hangs alone, and that of its AMS;
    the number of timers where there is nothing."""
    names, carried = catalog.timer_names, catalog.carried(hull).values()
    timers = {trigger: len(names) + 1 for trigger in Trigger}
    for weapon in sorted(carried, key=lambda weapon: weapon.effect != "paint"):
        timers[Trigger[weapon.mounts[hull].upper()]] = names.index(weapon.timer)
    return [*timers.values(), len(names) + (not catalog.hulls[hull].ams)]


def longest_cooldowns(hull: str, config: EnvConfig) -> list[int]:
    """Substeps that each of a hull's timers is set to at most, 0 where it has no use for it."""
    catalog = config.catalog
    times = [[w.cooldown_s for w in catalog.carried(hull).values() if w.timer == name] for name in catalog.timer_names]
    times.append([catalog.ams_cooldown_s] if catalog.hulls[hull].ams else [])
    return [max((config.rules.substeps(time) for time in cooldowns), default=0) for cooldowns in times]


def flags(values: list[bool], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.bool, device=device)


def floats(values: list[Any], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


def integers(values: list[Any], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=device)
