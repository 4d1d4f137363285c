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
from echelon.rules.config import PACK, EnvConfig
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


def build_roster(config: EnvConfig, device: torch.device) -> Roster:
    """Lay the catalog out for the mechs of `config`."""
    names = (*config.blue, *config.red)
    hulls = tuple(Hull[name.upper()] for name in names)
    count, num_blue = len(hulls), len(config.blue)
    specs = [HULLS[hull] for hull in hulls]
    rules = config.rules

    def column(values: list[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    def integers(values: list[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    is_red = [n >= num_blue for n in range(count)]
    in_team = [n - num_blue * red for n, red in enumerate(is_red)]
    blue_packs = -(-num_blue // len(PACK))
    pack = [i // len(PACK) + blue_packs * red for i, red in zip(in_team, is_red, strict=True)]
    packmates = [[m for m in range(count) if pack[m] == pack[n]] for n in range(count)]
    suites = [suite_of(n, in_team[n], hulls, packmates[n], config) for n in range(count)]
    squad_slots = config.squad_slots

    def squad_of(n: int) -> list[int]:
        mates = [m for m in range(count) if is_red[m] == is_red[n] and m != n]
        mates.sort(key=lambda m: (pack[m] != pack[n], m))
        return padded(mates[: suites[n][1].squad_slots], squad_slots, count)

    def longest(hull: Hull, timer: Timer) -> int:
        waits = [WEAPONS[w].cooldown_s for w in carried(hull) if WEAPONS[w].timer == timer]
        waits += [AMS_COOLDOWN_S] if hull == AMS_HULL and timer == Timer.AMS else []
        return max((rules.substeps(wait) for wait in waits), default=0)

    owners = {w: [n for n, hull in enumerate(hulls) if hull in WEAPONS[w].mounts] for w in Weapon}
    for w in SHELLS:
        needed = -(-rules.substeps(WEAPONS[w].lifetime_s) // max(rules.substeps(WEAPONS[w].cooldown_s), 1))
        limit = f"such that no {w.name.lower()} has more than {WEAPONS[w].slots} shots in flight"
        require(needed <= WEAPONS[w].slots, "RulesConfig.dt_s", limit, rules.dt_s)
    slots = [(w, n) for w in SHELLS for n in owners[w] for _ in range(WEAPONS[w].slots)]
    shots = build_damage_sources(slots, config, count, device)

    half_size = column([[x / 2 for x in s.size] for s in specs])
    up = column([0.0, 0.0, 1.0])
    hull = integers([int(h) for h in hulls])
    red = torch.tensor(is_red, device=device)
    hostile = red[:, None] != red
    guidance = [WEAPONS[w].guidance for w, _ in slots]

    return Roster(
        hulls=hulls,
        num_blue=num_blue,
        num_packs=max(pack) + 1,
        hull=hull,
        hull_one_hot=torch.nn.functional.one_hot(hull, len(Hull)).float(),
        is_red=red,
        hostile=hostile,
        pack=integers(pack),
        pack_slot=integers([padded(mates, len(PACK), count) for mates in packmates]),
        squad=integers([squad_of(n) for n in range(count)]),
        everyone=build_pairs(torch.ones_like(hostile)),
        enemies=build_pairs(hostile),
        half_size=half_size,
        radius=half_size.amax(-1),
        muzzle=KINETIC_MUZZLE * half_size * up,
        max_speed=column([s.max_speed_vox_per_s for s in specs]),
        yaw_rate=column([s.yaw_rate_rad_per_s for s in specs]),
        jet=column([s.jet_vox_per_s2 for s in specs]),
        hp=column([s.hp for s in specs]),
        leg_hp=column([s.leg_hp for s in specs]),
        heat_cap=column([s.heat_cap for s in specs]),
        heat_sink_per_s=column([s.heat_sink_per_s for s in specs]),
        tonnage=column([s.tonnage for s in specs]),
        noise_factor=column([NOISE_FACTOR[h] for h in hulls]),
        wreck_chance=column([WRECK_CHANCE[h] for h in hulls]),
        has_ewar=torch.tensor([h == EWAR_HULL for h in hulls], device=device),
        ewar=integers([n for n, h in enumerate(hulls) if h == EWAR_HULL]),
        ams=integers([n for n, h in enumerate(hulls) if h == AMS_HULL]),
        trigger=integers([[int(WEAPONS[w].mounts.get(h, -1)) for h in hulls] for w in Weapon]),
        longest_cooldown=integers([[longest(h, t) for t in Timer] for h in hulls]),
        guns=build_aim_table(owners, hostile),
        beams=build_damage_sources([(w, n) for w in BEAMS for n in owners[w]], config, count, device),
        shots=shots,
        bursts=build_damage_sources([slot for slot in slots if WEAPONS[slot[0]].splash_vox > 0], config, count, device),
        homing=torch.tensor([g == Guidance.HOMING for g in guidance], device=device),
        ballistic=torch.tensor([g == Guidance.BALLISTIC for g in guidance], device=device),
        shot_speed=column([WEAPONS[w].speed_vox_per_s for w, _ in slots]),
        cockpits=build_cockpits(suites, device),
    )


def build_pairs(wanted: Tensor) -> Pairs:
    """The pairs that `wanted [N, N]` bool holds above its diagonal."""
    first, second = wanted.triu(1).nonzero().unbind(1)
    place = torch.full_like(wanted, first.shape[0], dtype=torch.int64)
    place[first, second] = place[second, first] = torch.arange(first.shape[0], device=wanted.device)
    return Pairs(first, second, place)


def carried(hull: Hull) -> list[Weapon]:
    """The weapons of a hull."""
    return [w for w in Weapon if hull in WEAPONS[w].mounts]


def suite_of(
    mech: int, in_team: int, hulls: tuple[Hull, ...], packmates: list[int], config: EnvConfig
) -> tuple[Suite | None, SuiteSpec]:
    """A mech's suite: its hull's own, or a commander's; none where suites are switched off."""
    if not config.features.suites:
        return None, NO_SUITE
    suite = HULL_SUITE[hulls[mech]]
    if config.command_suites:
        first = {hull: next((m for m in packmates if hulls[m] == hull), None) for hull in (Hull.LIGHT, Hull.MEDIUM)}
        if mech == first[Hull.LIGHT]:
            suite = Suite.PACK_COMMAND
        if mech == first[Hull.MEDIUM] and in_team < len(PACK):
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
