"""The catalog laid out for the mechs of a battle: class, team, weapons and suite follow from a mech's index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from echelon.rules.catalog import (
    AMS_COOLDOWN_S,
    AMS_HULL,
    BEAMS,
    EWAR_HULL,
    HULL_SUITE,
    HULLS,
    KINETIC_MUZZLE,
    NO_SUITE,
    NOISE_FACTOR,
    SHELLS,
    SUITES,
    WEAPONS,
    WRECK_CHANCE,
    Guidance,
    Hull,
    Suite,
    SuiteSpec,
    Timer,
    Weapon,
)
from echelon.rules.config import PACK, EnvConfig, RulesConfig
from echelon.rules.damage_sources import AimTable, DamageSources, build_aim_table, build_damage_sources, padded
from echelon.runtime import exact
from echelon.runtime.compile import materialize
from echelon.runtime.errors import require


@dataclass(frozen=True)
class Pairs:
    """P pairs of mechs, each listed once."""

    first: Tensor
    """[P] int64."""
    second: Tensor
    """[P] int64."""
    place: Tensor
    """[N, N] int64: where two mechs stand in the list, whichever comes first; P for no pair."""

    def both(self, facts: Tensor) -> Tensor:
        """`[B, P]` bool: true of both mechs of a pair, from `[B, N]` bool."""
        return facts[:, self.first] & facts[:, self.second]

    def matrix(self, facts: Tensor) -> Tensor:
        """`[B, N, N]` bool, symmetric, from one fact a pair `[B, P]`; false for no pair."""
        nothing = torch.zeros_like(facts[:, :1])
        return materialize(torch.cat((facts, nothing), 1)[:, self.place])


@dataclass(frozen=True)
class Cockpits:
    """What the suite of each mech shows, `[N]` each."""

    visual_slots: Tensor
    """int64."""
    intel_slots: Tensor
    """int64."""
    sensor_factor: Tensor
    fidelity: Tensor
    squad_detail: Tensor
    """int64."""
    sees_engaged: Tensor
    """bool."""
    descriptor: Tensor
    """[N, SUITE_DESCRIPTOR], all zero where suites are switched off."""


SUITE_DESCRIPTOR = len(Suite) + 8
"""Numbers that describe a suite to its pilot."""


@dataclass(frozen=True)
class Roster:
    """What never changes about the N mechs of a battle, blue first, then red.

    `[N]` float tensors on the device unless said. Class and team follow from the index, so no battle stores them.
    """

    hulls: tuple[Hull, ...]
    num_blue: int
    num_packs: int
    hull: Tensor
    """[N] int64, a `Hull`."""
    hull_one_hot: Tensor
    """[N, 4]."""
    is_red: Tensor
    """[N] bool."""
    hostile: Tensor
    """[N, N] bool."""
    pack: Tensor
    """[N] int64: packs are numbered through both teams, blue's first."""
    pack_slot: Tensor
    """[N, 5] int64: the mechs of one's own pack in order; a place nobody holds points at N."""
    squad: Tensor
    """[N, squad_slots] int64: comrades, packmates first; a place nobody holds, or beyond one's suite, points at N."""
    everyone: Pairs
    """Any two mechs."""
    enemies: Pairs
    """Mechs of different teams."""
    half_size: Tensor
    """[N, 3] vox."""
    radius: Tensor
    """[N] vox, of the sphere a shot meets: half of a hull's longest side."""
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
    """[N] bool."""
    ewar: Tensor
    """[E] int64: the mechs that carry ECM and ECCM."""
    ams: Tensor
    """[H] int64: the mechs that carry AMS."""
    trigger: Tensor
    """[W, N] int64: the `Trigger` that fires weapon w on mech n, -1 where it carries none."""
    longest_cooldown: Tensor
    """[N, len(Timer)] substeps: what each of a mech's own timers is set to at most, 0 where it has no use for it."""
    guns: AimTable
    beams: DamageSources
    """A row for every gun whose fire is a beam."""
    shots: DamageSources
    """A row for every shot slot, ordered by weapon, shooter, slot."""
    bursts: DamageSources
    """The slots of shots that splash: the first rows of `shots`."""
    homing: Tensor
    """[S] bool, by shot slot."""
    ballistic: Tensor
    """[S] bool, by shot slot."""
    shot_speed: Tensor
    """[S] vox/s."""
    cockpits: Cockpits

    @property
    def num_mechs(self) -> int:
        """Mechs of both teams, N."""
        return len(self.hulls)

    @property
    def teams(self) -> dict[str, slice]:
        """Where each team sits on the mech axis."""
        return {"blue": slice(0, self.num_blue), "red": slice(self.num_blue, self.num_mechs)}

    def by_team(self, per_mech: Tensor) -> Tensor:
        """Sum `[B, N, ...]` over each team: `[B, 2, ...]`, blue first."""
        return torch.stack([exact.sum(per_mech[:, span], 1) for span in self.teams.values()], 1)

    def team_mean(self, per_mech: Tensor) -> Tensor:
        """Mean of `[B, N, ...]` over each team: `[B, 2, ...]`, blue first."""
        return torch.stack([exact.mean(per_mech[:, span], 1) for span in self.teams.values()], 1)

    def of_own_team(self, per_team: Tensor) -> Tensor:
        """`[B, 2, ...]` seen by every mech as its own team's: `[B, N, ...]`."""
        return per_team[:, self.is_red.long()]

    def of_enemy_team(self, per_team: Tensor) -> Tensor:
        """`[B, 2, ...]` seen by every mech as the other team's: `[B, N, ...]`."""
        return per_team[:, (~self.is_red).long()]


@dataclass(frozen=True)
class Formation:
    """How the N mechs of a battle are grouped, by mech."""

    hulls: tuple[Hull, ...]
    num_blue: int
    is_red: list[bool]
    in_team: list[int]
    """Index within the team."""
    pack: list[int]
    packmates: list[list[int]]
    """The mechs of the same pack, itself included, in order."""

    @property
    def num_mechs(self) -> int:
        """Mechs of both teams, N."""
        return len(self.hulls)

    def squad(self, mech: int, limit: int) -> list[int]:
        """The comrades of a mech, packmates first, at most `limit`."""
        mates = [m for m in range(self.num_mechs) if self.is_red[m] == self.is_red[mech] and m != mech]
        mates.sort(key=lambda m: (self.pack[m] != self.pack[mech], m))
        return mates[:limit]


def build_formation(config: EnvConfig) -> Formation:
    """Group the mechs of `config` into teams and packs."""
    hulls = tuple(Hull[name.upper()] for name in (*config.blue, *config.red))
    count, num_blue = len(hulls), len(config.blue)
    is_red = [n >= num_blue for n in range(count)]
    in_team = [n - num_blue * red for n, red in enumerate(is_red)]
    blue_packs = -(-num_blue // len(PACK))
    pack = [i // len(PACK) + blue_packs * red for i, red in zip(in_team, is_red, strict=True)]
    packmates = [[m for m in range(count) if pack[m] == pack[n]] for n in range(count)]
    return Formation(hulls, num_blue, is_red, in_team, pack, packmates)


def build_roster(config: EnvConfig, device: torch.device) -> Roster:
    """Lay the catalog out for the mechs of `config`."""
    formation = build_formation(config)
    hulls = formation.hulls
    suites = [suite_of(n, formation, config) for n in range(formation.num_mechs)]
    teams = team_tables(formation, suites, config, device)
    return Roster(
        hulls=hulls,
        num_blue=formation.num_blue,
        num_packs=max(formation.pack) + 1,
        cockpits=build_cockpits(suites, device),
        **teams,
        **hull_tables(hulls, device),
        **equipment_tables(hulls, config.rules, device),
        **weapon_tables(hulls, teams["hostile"], config, device),
    )


def team_tables(
    formation: Formation, suites: list[tuple[Suite | None, SuiteSpec]], config: EnvConfig, device: torch.device
) -> dict[str, Any]:
    """The fields of a `Roster` that tell who stands with whom."""
    count = formation.num_mechs
    red = torch.tensor(formation.is_red, device=device)
    hostile = red[:, None] != red
    squads = [formation.squad(n, suites[n][1].squad_slots) for n in range(count)]
    return {
        "is_red": red,
        "hostile": hostile,
        "pack": integers(formation.pack, device),
        "pack_slot": integers([padded(mates, len(PACK), count) for mates in formation.packmates], device),
        "squad": integers([padded(mates, config.squad_slots, count) for mates in squads], device),
        "everyone": build_pairs(torch.ones_like(hostile)),
        "enemies": build_pairs(hostile),
    }


def hull_tables(hulls: tuple[Hull, ...], device: torch.device) -> dict[str, Any]:
    """The fields of a `Roster` that hulls have by themselves: size, mobility, endurance."""
    specs = [HULLS[hull] for hull in hulls]
    hull = integers([int(h) for h in hulls], device)
    half_size = floats([[x / 2 for x in s.size] for s in specs], device)
    up = floats([0.0, 0.0, 1.0], device)
    return {
        "hull": hull,
        "hull_one_hot": torch.nn.functional.one_hot(hull, len(Hull)).float(),
        "half_size": half_size,
        "radius": half_size.amax(-1),
        "muzzle": KINETIC_MUZZLE * half_size * up,
        "max_speed": floats([s.max_speed_vox_per_s for s in specs], device),
        "yaw_rate": floats([s.yaw_rate_rad_per_s for s in specs], device),
        "jet": floats([s.jet_vox_per_s2 for s in specs], device),
        "hp": floats([s.hp for s in specs], device),
        "leg_hp": floats([s.leg_hp for s in specs], device),
        "heat_cap": floats([s.heat_cap for s in specs], device),
        "heat_sink_per_s": floats([s.heat_sink_per_s for s in specs], device),
        "tonnage": floats([s.tonnage for s in specs], device),
        "noise_factor": floats([NOISE_FACTOR[h] for h in hulls], device),
        "wreck_chance": floats([WRECK_CHANCE[h] for h in hulls], device),
    }


def equipment_tables(hulls: tuple[Hull, ...], rules: RulesConfig, device: torch.device) -> dict[str, Any]:
    """The fields of a `Roster` that tell what each hull carries, what fires it, and how long it waits."""
    return {
        "has_ewar": torch.tensor([h == EWAR_HULL for h in hulls], device=device),
        "ewar": integers([n for n, h in enumerate(hulls) if h == EWAR_HULL], device),
        "ams": integers([n for n, h in enumerate(hulls) if h == AMS_HULL], device),
        "trigger": integers([[int(WEAPONS[w].mounts.get(h, -1)) for h in hulls] for w in Weapon], device),
        "longest_cooldown": integers([[longest_cooldown(h, t, rules) for t in Timer] for h in hulls], device),
    }


def weapon_tables(hulls: tuple[Hull, ...], hostile: Tensor, config: EnvConfig, device: torch.device) -> dict[str, Any]:
    """The fields of a `Roster` that hold a row for every weapon or shot slot; `hostile [N, N]` bool."""
    check_shot_slots(config.rules)
    owners = {w: [n for n, hull in enumerate(hulls) if hull in WEAPONS[w].mounts] for w in Weapon}
    beams = [(w, n) for w in BEAMS for n in owners[w]]
    shots = [(w, n) for w in SHELLS for n in owners[w] for _ in range(WEAPONS[w].slots)]
    bursts = [(w, n) for w, n in shots if WEAPONS[w].splash_vox > 0]
    guidance = [WEAPONS[w].guidance for w, _ in shots]
    return {
        "guns": build_aim_table(owners, hostile),
        "beams": build_damage_sources(beams, config, len(hulls), device),
        "shots": build_damage_sources(shots, config, len(hulls), device),
        "bursts": build_damage_sources(bursts, config, len(hulls), device),
        "homing": torch.tensor([g == Guidance.HOMING for g in guidance], device=device),
        "ballistic": torch.tensor([g == Guidance.BALLISTIC for g in guidance], device=device),
        "shot_speed": floats([WEAPONS[w].speed_vox_per_s for w, _ in shots], device),
    }


def check_shot_slots(rules: RulesConfig) -> None:
    """Require that every shell ends its flight before its mech needs its slot again."""
    for w in SHELLS:
        needed = -(-rules.substeps(WEAPONS[w].lifetime_s) // max(rules.substeps(WEAPONS[w].cooldown_s), 1))
        limit = f"such that no {w.name.lower()} has more than {WEAPONS[w].slots} shots in flight"
        require(needed <= WEAPONS[w].slots, "RulesConfig.dt_s", limit, rules.dt_s)


def longest_cooldown(hull: Hull, timer: Timer, rules: RulesConfig) -> int:
    """Substeps that a hull's timer is set to at most, 0 where it has no use for it."""
    waits = [WEAPONS[w].cooldown_s for w in carried(hull) if WEAPONS[w].timer == timer]
    waits += [AMS_COOLDOWN_S] if hull == AMS_HULL and timer == Timer.AMS else []
    return max((rules.substeps(wait) for wait in waits), default=0)


def floats(values: list[Any], device: torch.device) -> Tensor:
    """A float32 tensor."""
    return torch.tensor(values, dtype=torch.float32, device=device)


def integers(values: list[Any], device: torch.device) -> Tensor:
    """An int64 tensor."""
    return torch.tensor(values, dtype=torch.int64, device=device)


def build_pairs(wanted: Tensor) -> Pairs:
    """The pairs that `wanted [N, N]` bool holds above its diagonal."""
    first, second = wanted.triu(1).nonzero().unbind(1)
    place = torch.full_like(wanted, first.shape[0], dtype=torch.int64)
    place[first, second] = place[second, first] = torch.arange(first.shape[0], device=wanted.device)
    return Pairs(first, second, place)


def carried(hull: Hull) -> list[Weapon]:
    """The weapons of a hull."""
    return [w for w in Weapon if hull in WEAPONS[w].mounts]


def suite_of(mech: int, formation: Formation, config: EnvConfig) -> tuple[Suite | None, SuiteSpec]:
    """A mech's suite: its hull's own, or a commander's; none where suites are switched off."""
    if not config.features.suites:
        return None, NO_SUITE
    hulls, packmates = formation.hulls, formation.packmates[mech]
    suite = HULL_SUITE[hulls[mech]]
    if config.command_suites:
        first = {hull: next((m for m in packmates if hulls[m] == hull), None) for hull in (Hull.LIGHT, Hull.MEDIUM)}
        if mech == first[Hull.LIGHT]:
            suite = Suite.PACK_COMMAND
        if mech == first[Hull.MEDIUM] and formation.in_team[mech] < len(PACK):
            suite = Suite.SQUAD_COMMAND
    return suite, SUITES[suite]


def build_cockpits(suites: list[tuple[Suite | None, SuiteSpec]], device: torch.device) -> Cockpits:
    """Tables of what each mech's suite shows."""

    def column(name: str, dtype: torch.dtype) -> Tensor:
        return torch.tensor([getattr(spec, name) for _, spec in suites], dtype=dtype, device=device)

    return Cockpits(
        visual_slots=column("visual_slots", torch.int64),
        intel_slots=column("intel_slots", torch.int64),
        sensor_factor=column("sensor_factor", torch.float32),
        fidelity=column("fidelity", torch.float32),
        squad_detail=column("squad_detail", torch.int64),
        sees_engaged=column("sees_engaged", torch.bool),
        descriptor=torch.tensor([descriptor(*suite) for suite in suites], dtype=torch.float32, device=device),
    )


def descriptor(suite: Suite | None, spec: SuiteSpec) -> list[float]:
    """How a suite describes itself, each number within 0..1."""
    if suite is None:
        return [0.0] * SUITE_DESCRIPTOR
    return [
        *(float(suite == one) for one in Suite),
        spec.visual_slots / 20,
        (spec.sensor_factor - 0.8) / 0.7,
        spec.fidelity,
        spec.squad_detail / 2,
        float(spec.sees_engaged),
        float(spec.issues_orders),
        float(spec.contact_reports),
        float(spec.intel_slots > 5),
    ]
