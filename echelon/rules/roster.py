"""Tables of the catalog for the N mechs of a battle, indexed by mech: class, team, weapons, shot slots and suite."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from echelon.rules.catalog import KINETIC_MUZZLE, NO_SUITE, Catalog, Hull, Suite, Trigger, clouds_hanging
from echelon.rules.config import PACK, EnvConfig
from echelon.rules.damage_sources import AimTable, DamageSources, build_aim_table, build_damage_sources, padded
from echelon.rules.specs import SuiteSpec, WeaponSpec, shots_in_flight
from echelon.runtime import exact
from echelon.runtime.compile import materialize
from echelon.runtime.limits import hints_of


@dataclass(frozen=True)
class Pairs:
    """P pairs of mechs, each listed once."""

    first: Tensor
    """[P] int64, mech of lower index."""
    second: Tensor
    """[P] int64, mech of higher index."""
    place: Tensor
    """[N, N] int64, symmetric: index of the pair of two mechs in the list; P if they are not a listed pair."""

    def both(self, facts: Tensor) -> Tensor:
        """Return `[B, P]` bool: whether `facts [B, N]` is True for both mechs of each pair."""
        return facts[:, self.first] & facts[:, self.second]

    def matrix(self, facts: Tensor) -> Tensor:
        """Expand `facts`, `[B, P]` bool, to a symmetric matrix, `[B, N, N]` bool. Other pairs are false."""
        padding = torch.zeros_like(facts[:, :1])
        return materialize(torch.cat((facts, padding), 1)[:, self.place])


@dataclass(frozen=True)
class Cockpits:
    """The `SuiteSpec` fields of each mech, `[N]` float32 unless stated."""

    visual_slots: Tensor
    """[N] int64."""
    intel_slots: Tensor
    """[N] int64."""
    sensor_factor: Tensor
    fidelity: Tensor
    squad_detail: Tensor
    """[N] int64."""
    sees_engaged: Tensor
    """[N] bool."""
    descriptor: Tensor
    """[N, SUITE_DESCRIPTOR] float32, all zero if suites are disabled."""


SUITE_DESCRIPTOR = len(Suite) + 8
"""Number of observation columns that describe a suite."""


@dataclass(frozen=True)
class Roster:
    """Constants of the N mechs of a battle, blue first, then red.

    Tensors are `[N]` float32 on the device unless stated. The index of a mech determines its class and team, so states
    store neither.
    """

    hulls: tuple[str, ...]
    """Hull name of each mech."""
    weapons: tuple[WeaponSpec, ...]
    """The weapons of the catalog, in order. The index of a weapon in this tuple is its index everywhere."""
    timers: tuple[int, ...]
    """Cooldown timer of each weapon."""
    ams_timer: int
    """Cooldown timer of the AMS, which is the last timer."""
    num_blue: int
    packs: tuple[slice, ...]
    """Range of mech indices of each pack."""
    hull: Tensor
    """[N] int64, the class of each mech, a `Hull`."""
    hull_one_hot: Tensor
    """[N, 4] one-hot class of each mech."""
    is_red: Tensor
    """[N] bool: the mech belongs to the red team."""
    hostile: Tensor
    """[N, N] bool: the two mechs are enemies."""
    team_size: Tensor
    """[2] number of mechs of blue and red."""
    pack: Tensor
    """[N] int64, pack of each mech. Packs are numbered across both teams, blue first."""
    pack_slot: Tensor
    """[N, 5] int64, mechs of the mech's own pack in order, padded with N."""
    squad: Tensor
    """[N, squad_slots] int64, teammates that the mech's suite shows, packmates first, padded with N."""
    order_net: Tensor
    """[N, N] bool: mech m (column) relays orders to mech n (row). The suite of m issues orders to its pack or, with
    squad command, to its team."""
    everyone: Pairs
    """All pairs of mechs."""
    enemies: Pairs
    """Pairs of mechs of different teams."""
    half_size: Tensor
    """[N, 3] vox, half of the size of the hull."""
    radius: Tensor
    """[N] vox, radius of the sphere that shots hit: half of the longest side of the hull."""
    muzzle: Tensor
    """[N, 3] vox from the hull centre to the kinetic muzzle."""
    max_speed: Tensor
    yaw_rate: Tensor
    jet: Tensor
    hp: Tensor
    leg_hp: Tensor
    heat_cap: Tensor
    heat_sink_per_s: Tensor
    tonnage: Tensor
    noise_factor: Tensor
    wreck_chance: Tensor
    has_ewar: Tensor
    """[N] bool: the mech carries ECM and ECCM."""
    ewar: Tensor
    """[E] int64, mechs that carry ECM and ECCM."""
    ams: Tensor
    """[H] int64, mechs that carry an AMS."""
    trigger: Tensor
    """[W, N] int64, the `Trigger` that fires weapon w on mech n, -1 if the mech does not carry it."""
    longest_cooldown: Tensor
    """[N, T] int64 substeps, maximum value of each timer of a mech, 0 for unused timers."""
    shown_timer: Tensor
    """[N, 5] int64, timers of the cooldowns in the stream `ego`: of the four triggers and the AMS; T for none."""
    guns: AimTable
    beams: DamageSources
    """One row per mech and beam weapon that it carries."""
    shots: DamageSources
    """One row per shot slot, sorted by weapon (in the order of `shells`), shooter and slot."""
    bursts: DamageSources
    """The shot slots of weapons with splash damage."""
    rays: tuple[int, ...]
    """Indices of beam weapons."""
    shells: tuple[int, ...]
    """Indices of the other weapons, in the order of their shot slots (`slot_order`)."""
    painters: tuple[int, ...]
    """Indices of beam weapons that paint."""
    splashing: slice
    """Range of the shot slots with splash damage."""
    interceptable: slice
    """Range of the shot slots that an AMS can destroy."""
    launching: slice
    """Range of the shot slots that leave clouds, one slot for each mech of `launchers`."""
    launchers: Tensor
    """[L] int64, mechs that carry a weapon that leaves clouds."""
    clouds_each: int
    """Maximum number of active clouds per mech."""
    leaves_cloud: Tensor
    """[W] bool: shots of the weapon leave clouds."""
    homing: Tensor
    """[S] bool: shots in the slot are homing."""
    ballistic: Tensor
    """[S] bool: shots in the slot are ballistic."""
    shot_speed: Tensor
    """[S] vox/s, launch speed of shots in the slot."""
    shot_flight_s: Tensor
    """[S] s, maximum time of flight of shots in the slot."""
    slug_speed: Tensor
    """[N, 1] vox/s, shot speed for leading a target: of the mech's ballistic weapon, else of the catalog's first
    ballistic weapon, else infinite."""
    cockpits: Cockpits

    @property
    def num_timers(self) -> int:
        return self.ams_timer + 1

    @property
    def num_mechs(self) -> int:
        return len(self.hulls)

    @property
    def num_packs(self) -> int:
        return len(self.packs)

    @property
    def teams(self) -> dict[str, slice]:
        """Range of mech indices of each team."""
        return {"blue": slice(0, self.num_blue), "red": slice(self.num_blue, self.num_mechs)}

    def by_team(self, per_mech: Tensor) -> Tensor:
        """Sum `[B, N, ...]` over each team to `[B, 2, ...]`, blue first."""
        return exact.sum_parts(per_mech, 1, [self.num_blue, self.num_mechs - self.num_blue])

    def team_mean(self, per_mech: Tensor) -> Tensor:
        """Return the mean of `[B, N, ...]` over each team, `[B, 2, ...]`, blue first."""
        return self.by_team(per_mech) / self.team_size.view(-1, *[1] * (per_mech.dim() - 2))

    def of_own_team(self, per_team: Tensor) -> Tensor:
        """Gather for each mech the value of its own team, from `[B, 2, ...]` to `[B, N, ...]`."""
        return per_team.index_select(1, self.is_red.long())

    def of_enemy_team(self, per_team: Tensor) -> Tensor:
        """Gather for each mech the value of the enemy team, from `[B, 2, ...]` to `[B, N, ...]`."""
        return per_team.index_select(1, (~self.is_red).long())


@dataclass(frozen=True)
class Formation:
    """The grouping of the N mechs of a battle into teams and packs. Lists are indexed by mech."""

    hulls: tuple[str, ...]
    classes: tuple[Hull, ...]
    num_blue: int
    is_red: list[bool]
    in_team: list[int]
    """Index of the mech within its team."""
    pack: list[int]
    packmates: list[list[int]]
    """The mechs of the same pack in order, including the mech itself."""

    @property
    def num_mechs(self) -> int:
        return len(self.hulls)

    def squad(self, mech: int, limit: int) -> list[int]:
        """Return at most `limit` teammates of a mech, packmates first."""
        mates = [m for m in range(self.num_mechs) if self.is_red[m] == self.is_red[mech] and m != mech]
        mates.sort(key=lambda m: (self.pack[m] != self.pack[mech], m))
        return mates[:limit]


def build_formation(config: EnvConfig) -> Formation:
    """Group the mechs of `config` into teams and packs."""
    hulls = (*config.blue, *config.red)
    classes = tuple(config.catalog.class_of(hull) for hull in hulls)
    count, num_blue = len(hulls), len(config.blue)
    is_red = [n >= num_blue for n in range(count)]
    in_team = [n - num_blue * red for n, red in enumerate(is_red)]
    blue_packs = -(-num_blue // len(PACK))
    pack = [i // len(PACK) + blue_packs * red for i, red in zip(in_team, is_red, strict=True)]
    packmates = [[m for m in range(count) if pack[m] == pack[n]] for n in range(count)]
    return Formation(hulls, classes, num_blue, is_red, in_team, pack, packmates)


def build_roster(config: EnvConfig, device: torch.device) -> Roster:
    """Build the tables for the mechs of `config` on a device."""
    formation, catalog = build_formation(config), config.catalog
    hulls = formation.hulls
    suites = [suite_of(n, formation, config) for n in range(formation.num_mechs)]
    teams = team_tables(formation, suites, config, device)
    timers = catalog.timer_names
    return Roster(
        hulls=hulls,
        weapons=tuple(catalog.weapons.values()),
        timers=tuple(timers.index(spec.timer) for spec in catalog.weapons.values()),
        ams_timer=len(timers),
        num_blue=formation.num_blue,
        packs=tuple(slice(pack[0], pack[-1] + 1) for pack in dict.fromkeys(map(tuple, formation.packmates))),
        cockpits=build_cockpits(suites, device),
        **teams,
        **hull_tables(formation, catalog, device),
        **equipment_tables(hulls, config, device),
        **weapon_tables(hulls, teams["hostile"], config, device),
    )


def team_tables(
    formation: Formation, suites: list[tuple[Suite | None, SuiteSpec]], config: EnvConfig, device: torch.device
) -> dict[str, Any]:
    """Return the fields of a `Roster` about teams and packs."""
    count = formation.num_mechs
    red = torch.tensor(formation.is_red, device=device)
    hostile = red[:, None] != red
    slots = [min(suite.squad_slots, config.squad_slots) for _, suite in suites]
    squads = [formation.squad(n, slots[n]) for n in range(count)]
    pack = integers(formation.pack, device)
    issues = torch.tensor([spec.issues_orders for _, spec in suites], device=device)
    to_team = torch.tensor([suite == Suite.SQUAD_COMMAND for suite, _ in suites], device=device)
    return {
        "is_red": red,
        "hostile": hostile,
        "team_size": floats([count - sum(formation.is_red), sum(formation.is_red)], device),
        "pack": pack,
        "order_net": issues & ((pack[:, None] == pack) | (to_team & ~hostile)),
        "pack_slot": integers([padded(mates, len(PACK), count) for mates in formation.packmates], device),
        "squad": integers([padded(mates, config.squad_slots, count) for mates in squads], device),
        "everyone": build_pairs(torch.ones_like(hostile)),
        "enemies": build_pairs(hostile),
    }


def hull_tables(formation: Formation, catalog: Catalog, device: torch.device) -> dict[str, Any]:
    """Return the fields of a `Roster` that depend on the hull alone: size, mobility, endurance."""
    specs = [catalog.hulls[hull] for hull in formation.hulls]
    hull = integers([int(kind) for kind in formation.classes], device)
    half_size = floats([[x / 2 for x in s.size] for s in specs], device)
    up = floats([0.0, 0.0, 1.0], device)
    units = {"max_speed": "max_speed_vox_per_s", "yaw_rate": "yaw_rate_rad_per_s", "jet": "jet_vox_per_s2"}
    unchanged = ("hp", "leg_hp", "heat_cap", "heat_sink_per_s", "tonnage", "noise_factor", "wreck_chance")
    columns = units | {name: name for name in unchanged}
    return {
        "hull": hull,
        "hull_one_hot": torch.nn.functional.one_hot(hull, len(Hull)).float(),
        "half_size": half_size,
        "radius": half_size.amax(-1),
        "muzzle": KINETIC_MUZZLE * half_size * up,
        **{name: floats([getattr(spec, field) for spec in specs], device) for name, field in columns.items()},
    }


def build_pairs(wanted: Tensor) -> Pairs:
    """Return the pairs of mechs above the diagonal of `wanted`, a symmetric matrix `[N, N]` bool."""
    first, second = wanted.triu(1).nonzero().unbind(1)
    index = torch.full_like(wanted, first.shape[0], dtype=torch.int64)
    index[first, second] = index[second, first] = torch.arange(first.shape[0], device=wanted.device)
    return Pairs(first, second, index)


def suite_of(mech: int, formation: Formation, config: EnvConfig) -> tuple[Suite | None, SuiteSpec]:
    """Return a mech's suite (that of its hull, or a command suite) and its catalog row. The suite is None if suites are
    off."""
    if not config.features.suites:
        return None, NO_SUITE
    classes, packmates, catalog = formation.classes, formation.packmates[mech], config.catalog
    suite = Suite[catalog.hulls[formation.hulls[mech]].suite.upper()]
    if config.command_suites:
        first = {kind: next((m for m in packmates if classes[m] == kind), None) for kind in (Hull.LIGHT, Hull.MEDIUM)}
        if mech == first[Hull.LIGHT]:
            suite = Suite.PACK_COMMAND
        if mech == first[Hull.MEDIUM] and formation.in_team[mech] < len(PACK):
            suite = Suite.SQUAD_COMMAND
    return suite, catalog.suites[suite.name.lower()]


def build_cockpits(suites: list[tuple[Suite | None, SuiteSpec]], device: torch.device) -> Cockpits:
    """Build the tables of the suites of all mechs."""
    kinds = {int: integers, float: floats, bool: flags}
    fields = {name: kind for name, kind in hints_of(SuiteSpec).items() if name in Cockpits.__dataclass_fields__}
    return Cockpits(
        **{name: kinds[kind]([getattr(spec, name) for _, spec in suites], device) for name, kind in fields.items()},
        descriptor=floats([descriptor(*suite) for suite in suites], device),
    )


def descriptor(suite: Suite | None, spec: SuiteSpec) -> list[float]:
    """Return the columns that describe a suite, each in 0..1."""
    if suite is None:
        return [0.0] * SUITE_DESCRIPTOR
    return [
        *(float(suite == other) for other in Suite),
        spec.visual_slots / 20,
        (spec.sensor_factor - 0.8) / 0.7,
        spec.fidelity,
        spec.squad_detail / 2,
        float(spec.sees_engaged),
        float(spec.issues_orders),
        float(spec.contact_reports),
        float(spec.intel_slots > 5),
    ]


def equipment_tables(hulls: tuple[str, ...], config: EnvConfig, device: torch.device) -> dict[str, Any]:
    """Return the fields of a `Roster` about equipment, triggers and cooldowns."""
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
    """Return the fields of a `Roster` about weapons and shot slots; `hostile` is `[N, N]` bool."""
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
    """Return the sort key of a weapon's shot slots, which makes slots with a common property contiguous."""
    if spec.interceptable:
        return 1 if spec.splash_vox > 0 else 0
    return 2 if spec.splash_vox > 0 else 4 if spec.effect == "cloud" else 3


def run_of(facts: list[bool]) -> slice:
    """Return the range of true values, which must be contiguous."""
    return slice(facts.index(True), facts.index(True) + sum(facts)) if any(facts) else slice(0, 0)


def slug_speed(hull: str, catalog: Catalog) -> float:
    """Return the shot speed of a hull's ballistic weapon, else of the first ballistic weapon in the catalog, else
    infinity, vox/s."""
    falling = {name: spec for name, spec in catalog.weapons.items() if spec.guidance == "ballistic"}
    mounted = [spec for spec in falling.values() if hull in spec.mounts]
    return next((spec.speed_vox_per_s for spec in (*mounted, *falling.values())), math.inf)


def shown_timers(hull: str, catalog: Catalog) -> list[int]:
    """Return the timer index of the weapon on each trigger of a hull, and of its AMS. Without a weapon, the index is
    the number of timers.

    If a painter (a weapon that marks targets) shares a trigger with a gun, the timer is that of the gun.
    """
    names, carried = catalog.timer_names, catalog.carried(hull).values()
    timers = {trigger: len(names) + 1 for trigger in Trigger}
    for weapon in sorted(carried, key=lambda weapon: weapon.effect != "paint"):
        timers[Trigger[weapon.mounts[hull].upper()]] = names.index(weapon.timer)
    return [*timers.values(), len(names) + (not catalog.hulls[hull].ams)]


def longest_cooldowns(hull: str, config: EnvConfig) -> list[int]:
    """Return the maximum value of each timer of a hull in substeps, 0 for unused timers."""
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
