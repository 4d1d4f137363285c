"""Hulls, weapons and materials: the tables of the rule book, and the roster that lays them out per mech."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from echelon.config import PACK, EnvConfig


class Hull(IntEnum):
    """Chassis classes, lightest first."""

    SCOUT = 0
    LIGHT = 1
    MEDIUM = 2
    HEAVY = 3


@dataclass(frozen=True)
class HullSpec:
    """One chassis. Sizes in voxels, `jet` in vox/s², `heat_sink` in heat points a second."""

    size: tuple[float, float, float]
    max_speed_vox_per_s: float
    yaw_rate_rad_per_s: float
    jet_vox_per_s2: float
    hp: float
    leg_hp: float
    heat_cap: float
    heat_sink_per_s: float
    tonnage: float


HULLS = {
    Hull.SCOUT: HullSpec((1.2, 1.2, 1.8), 7.0, 1.8, 18.0, 60.0, 30.0, 75.0, 13.0, 20.0),
    Hull.LIGHT: HullSpec((1.5, 1.5, 2.0), 6.8, 1.5, 16.0, 80.0, 40.0, 80.0, 12.0, 35.0),
    Hull.MEDIUM: HullSpec((2.5, 2.5, 3.0), 5.5, 1.0, 0.0, 150.0, 75.0, 100.0, 11.0, 55.0),
    Hull.HEAVY: HullSpec((3.5, 3.5, 4.0), 2.5, 0.6, 0.0, 200.0, 100.0, 130.0, 10.0, 85.0),
}


class Trigger(IntEnum):
    """The four firing slots of an action."""

    PRIMARY = 0
    SECONDARY = 1
    TERTIARY = 2
    SPECIAL = 3


class Timer(IntEnum):
    """Cooldown timers of a mech."""

    LASER = 0
    KINETIC = 1


class Weapon(IntEnum):
    """Weapons a hull can mount."""

    LASER = 0
    AUTOCANNON = 1


@dataclass(frozen=True)
class WeaponSpec:
    """One weapon. `mounts` names the trigger that fires it on each hull that carries it."""

    mounts: dict[Hull, Trigger]
    timer: Timer
    range_vox: float
    damage: float
    stability: float
    self_heat: float
    cooldown_s: float
    arc_deg: float
    target_heat: float = 0.0
    """Heat a hit adds to its target."""
    speed_vox_per_s: float = 0.0
    """0 for a beam, which hits at once."""
    slots: int = 0
    """Shots one mech can have in flight: lifetime over cooldown."""
    suppress_s: float = 0.0

    @property
    def arc_cos(self) -> float:
        """Cosine of half the arc, what a bearing is compared with."""
        return math.cos(math.radians(self.arc_deg / 2))

    @property
    def lifetime_s(self) -> float:
        """Seconds a shot flies."""
        return self.range_vox / self.speed_vox_per_s


WEAPONS = {
    Weapon.LASER: WeaponSpec(
        mounts={Hull.HEAVY: Trigger.PRIMARY, Hull.MEDIUM: Trigger.PRIMARY, Hull.LIGHT: Trigger.SECONDARY},
        timer=Timer.LASER,
        range_vox=8.0,
        damage=14.0,
        stability=0.0,
        self_heat=22.0,
        cooldown_s=0.6,
        arc_deg=120.0,
        target_heat=6.0,
    ),
    Weapon.AUTOCANNON: WeaponSpec(
        mounts={Hull.MEDIUM: Trigger.TERTIARY},
        timer=Timer.KINETIC,
        range_vox=12.0,
        damage=8.0,
        stability=5.0,
        self_heat=6.0,
        cooldown_s=0.2,
        arc_deg=90.0,
        speed_vox_per_s=25.0,
        slots=3,
        suppress_s=1.2,
    ),
}

KINETIC_AIM_FOCUS_RAD = 0.2
"""A kinetic weapon aims at the focus target within this bearing, else fires straight ahead."""
KINETIC_AIM_RAD = 0.1
"""The same for any other target."""
BEAM_SPREAD = 0.5
"""A beam strikes within this share of the target's half height."""
KINETIC_MUZZLE = 0.8
"""Height of a kinetic muzzle above the hull centre, in half heights."""


class Material(IntEnum):
    """What a voxel is made of."""

    AIR = 0
    DIRT = 1
    LAVA = 2
    WATER = 3
    SOLID = 4
    DEBRIS_FIELD = 5
    SOLID_DEBRIS = 6
    GLASS = 7
    REINFORCED = 8
    FOLIAGE = 9


@dataclass(frozen=True)
class MaterialSpec:
    """One material: does it stop hulls and shots, does it stop lines of sight."""

    solid: bool
    opaque: bool


MATERIALS = {
    Material.AIR: MaterialSpec(solid=False, opaque=False),
    Material.DIRT: MaterialSpec(solid=False, opaque=False),
    Material.LAVA: MaterialSpec(solid=False, opaque=False),
    Material.WATER: MaterialSpec(solid=False, opaque=False),
    Material.SOLID: MaterialSpec(solid=True, opaque=True),
    Material.DEBRIS_FIELD: MaterialSpec(solid=False, opaque=False),
    Material.SOLID_DEBRIS: MaterialSpec(solid=True, opaque=True),
    Material.GLASS: MaterialSpec(solid=True, opaque=False),
    Material.REINFORCED: MaterialSpec(solid=True, opaque=True),
    Material.FOLIAGE: MaterialSpec(solid=False, opaque=True),
}

DEBRIS_HEAT = 0.5
"""A debris field's share of the heat of lava."""
DEBRIS_DAMAGE = 0.25
"""A debris field's share of the damage of lava."""


@dataclass(frozen=True)
class Roster:
    """What never changes about the N mechs of a battle, blue first, then red.

    `[N]` float tensors on the device unless said. Class and team follow from the index, so no battle stores them.
    """

    hulls: tuple[Hull, ...]
    num_blue: int
    hull: Tensor
    """[N] int64, a `Hull`."""
    hull_one_hot: Tensor
    """[N, 4]."""
    is_red: Tensor
    """[N] bool."""
    hostile: Tensor
    """[N, N] bool."""
    pack_slot: Tensor
    """[N, 5] int64: the mechs of one's own pack in order; a place nobody holds points at N."""
    pairs: Tensor
    """[2, P] int64: every pair of mechs once, lower index first."""
    pair_of: Tensor
    """[N, N] int64: where in `pairs` two mechs stand; 0 on the diagonal."""
    half_size: Tensor
    """[N, 3] vox."""
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
    trigger: Tensor
    """[W, N] int64: the `Trigger` that fires weapon w on mech n, -1 where it carries none."""
    shooter: Tensor
    """[S] int64: owner of each shot slot."""
    shot_of: Tensor
    """[N, K] int64: the shot slots of mech n; S where it owns fewer than K."""

    @property
    def num_mechs(self) -> int:
        """Mechs of both teams, N."""
        return len(self.hulls)

    @property
    def num_shots(self) -> int:
        """Shot slots of a battle, S."""
        return self.shooter.shape[0]

    @property
    def teams(self) -> dict[str, slice]:
        """Where each team sits on the mech axis."""
        return {"blue": slice(0, self.num_blue), "red": slice(self.num_blue, self.num_mechs)}

    def by_team(self, per_mech: Tensor) -> Tensor:
        """Sum `[B, N, ...]` over each team: `[B, 2, ...]`, blue first."""
        return torch.stack([per_mech[:, span].sum(1) for span in self.teams.values()], 1)

    def team_mean(self, per_mech: Tensor) -> Tensor:
        """Mean of `[B, N]` over each team: `[B, 2]`, blue first."""
        return torch.stack([per_mech[:, span].mean(1) for span in self.teams.values()], 1)

    def of_own_team(self, per_team: Tensor) -> Tensor:
        """`[B, 2]` seen by every mech as its own team's: `[B, N]`."""
        return per_team[:, self.is_red.long()]

    def of_enemy_team(self, per_team: Tensor) -> Tensor:
        """`[B, 2]` seen by every mech as the other team's: `[B, N]`."""
        return per_team[:, (~self.is_red).long()]

    def per_shooter(self, per_shot: Tensor) -> Tensor:
        """Sum `[B, S, ...]` over each mech's own slots: `[B, N, ...]`, in a fixed order."""
        nobody = per_shot.new_zeros((per_shot.shape[0], 1, *per_shot.shape[2:]))
        return torch.cat((per_shot, nobody), 1)[:, self.shot_of].sum(2)


def build_roster(config: EnvConfig, device: torch.device) -> Roster:
    """Lay the catalog out for the mechs of `config`."""
    names = (*config.blue, *config.red)
    hulls = tuple(Hull[name.upper()] for name in names)
    count, num_blue = len(hulls), len(config.blue)
    specs = [HULLS[hull] for hull in hulls]

    def column(values: list[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    is_red = torch.arange(count, device=device) >= num_blue
    index = torch.arange(count, device=device)
    in_team = torch.where(is_red, index - num_blue, index)
    pack = in_team // len(PACK)
    same_pack = (is_red[:, None] == is_red) & (pack[:, None] == pack)
    first = index - in_team % len(PACK)
    pack_slot = first[:, None] + torch.arange(len(PACK), device=device)
    held = (pack_slot < count) & same_pack[index[:, None], pack_slot.clamp_max(count - 1)]

    triggers = [[int(WEAPONS[w].mounts.get(hull, -1)) for hull in hulls] for w in Weapon]
    owners = [
        n for n, hull in enumerate(hulls) for w in Weapon if hull in WEAPONS[w].mounts for _ in range(WEAPONS[w].slots)
    ]
    slots: list[list[int]] = [[s for s, owner in enumerate(owners) if owner == n] for n in range(count)]
    widest = max(1, *(len(own) for own in slots))
    shot_of = [own + [len(owners)] * (widest - len(own)) for own in slots]

    half_size = column([[x / 2 for x in s.size] for s in specs])
    up = torch.tensor((0.0, 0.0, 1.0), device=device)
    pairs = torch.triu_indices(count, count, 1, device=device)
    pair_of = torch.zeros((count, count), dtype=torch.int64, device=device)
    pair_of[pairs[0], pairs[1]] = torch.arange(pairs.shape[1], device=device)
    hull = torch.tensor([int(h) for h in hulls], device=device)

    return Roster(
        hulls=hulls,
        num_blue=num_blue,
        hull=hull,
        hull_one_hot=torch.nn.functional.one_hot(hull, len(Hull)).float(),
        is_red=is_red,
        hostile=is_red[:, None] != is_red,
        pack_slot=torch.where(held, pack_slot, count),
        pairs=pairs,
        pair_of=pair_of + pair_of.T,
        half_size=half_size,
        muzzle=KINETIC_MUZZLE * half_size * up,
        max_speed=column([s.max_speed_vox_per_s for s in specs]),
        yaw_rate=column([s.yaw_rate_rad_per_s for s in specs]),
        jet=column([s.jet_vox_per_s2 for s in specs]),
        hp=column([s.hp for s in specs]),
        leg_hp=column([s.leg_hp for s in specs]),
        heat_cap=column([s.heat_cap for s in specs]),
        heat_sink_per_s=column([s.heat_sink_per_s for s in specs]),
        tonnage=column([s.tonnage for s in specs]),
        trigger=torch.tensor(triggers, device=device),
        shooter=torch.tensor(owners, dtype=torch.int64, device=device),
        shot_of=torch.tensor(shot_of, device=device),
    )
