"""The weapons of a battle as tensors: how they are aimed, and what they do to those they hit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.catalog import BEAMS, KINETIC_AIM_FOCUS_RAD, KINETIC_AIM_RAD, WEAPONS, Weapon
from echelon.rules.config import EnvConfig
from echelon.runtime import exact


@dataclass(frozen=True)
class DamageSources:
    """R sources of harm, such as the mechs that carry a laser, or every slot a shot can fly in; `[R]` unless said."""

    weapon: Tensor
    """[R, W], one column a `Weapon`."""
    span: tuple[slice, ...]
    """For each `Weapon` its run of rows."""
    shooter: Tensor
    """int64, whose it is."""
    rows_of: Tensor
    """[N, K] int64: the rows of mech n; R where it owns fewer than K."""
    damage: Tensor
    stability: Tensor
    target_heat: Tensor
    suppress: Tensor
    """Substeps."""
    splash_vox: Tensor
    splash_scale: Tensor

    @property
    def count(self) -> int:
        """Rows, R."""
        return self.shooter.shape[0]

    def by_shooter(self, per_row: Tensor) -> Tensor:
        """Sum `[B, R, ...]` over each mech's own rows: `[B, N, ...]`, in a fixed order."""
        nothing = per_row.new_zeros((per_row.shape[0], 1, *per_row.shape[2:]))
        return exact.sum(torch.cat((per_row, nothing), 1)[:, self.rows_of], 2).to(per_row.dtype)

    def by_weapon(self, per_row: Tensor) -> Tensor:
        """Sum `[B, R, ...]` over each weapon's rows: `[B, W, ...]`."""
        return torch.stack([exact.sum(per_row[:, span], 1) for span in self.span], 1)


@dataclass(frozen=True)
class AimTable:
    """How the weapons of every mech are aimed. W weapons, N mechs; floats `[W, N, N]` by weapon, shooter and target."""

    carriers: tuple[Tensor, ...]
    """For each `Weapon` `[R]` int64: the mechs that carry it."""
    reach_vox: Tensor
    """How far each reaches; -1 at one's own side, and where the shooter carries none."""
    arc_cos: Tensor
    """`[W, 1, 1]` cosine of half the arc it is aimed in."""
    focus_arc_cos: Tensor
    """`[W, 1, 1]` the same where the target is the focus target."""
    needs_target: Tensor
    """`[W, 1]` bool: it does not fire without one."""
    needs_line: Tensor
    """`[W, 1, 1]` bool: it is aimed along a clear line."""
    needs_lock: Tensor
    """`[W, 1, 1]` bool: it is aimed by a missile lock."""
    focus_only: Tensor
    """`[W, 1, 1]` bool: it is aimed at the focus target or straight ahead."""

    def exist(self, weapon: Weapon) -> bool:
        """Whether anybody carries the weapon."""
        return self.carriers[int(weapon)].shape[0] > 0


def build_damage_sources(
    sources: list[tuple[Weapon, int]], config: EnvConfig, count: int, device: torch.device
) -> DamageSources:
    """Rows for (weapon, shooter) pairs, in the order of the weapons."""
    rows = [[r for r, (_, owner) in enumerate(sources) if owner == n] for n in range(count)]
    widest = max(1, *(len(own) for own in rows))
    specs = [WEAPONS[w] for w, _ in sources]
    first = [sum(v < w for v, _ in sources) for w in (*Weapon, len(Weapon))]

    def column(values: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return DamageSources(
        weapon=torch.tensor([[float(w == v) for v in Weapon] for w, _ in sources], device=device).view(-1, len(Weapon)),
        span=tuple(slice(begin, end) for begin, end in itertools.pairwise(first)),
        shooter=column([n for _, n in sources], torch.int64),
        rows_of=torch.tensor([padded(own, widest, len(sources)) for own in rows], device=device),
        damage=column([s.damage for s in specs]),
        stability=column([s.stability for s in specs]),
        target_heat=column([s.target_heat for s in specs]),
        suppress=column([config.rules.substeps(s.suppress_s) for s in specs]),
        splash_vox=column([s.splash_vox for s in specs]),
        splash_scale=column([s.splash_scale for s in specs]),
    )


def build_aim_table(owners: dict[Weapon, list[int]], hostile: Tensor) -> AimTable:
    """How the weapons are aimed of the mechs that carry them, `owners`; `hostile [N, N]` bool."""
    device = hostile.device
    carried = torch.tensor([[n in owners[w] for n in range(len(hostile))] for w in Weapon], device=device)
    reach_vox = torch.tensor([WEAPONS[w].range_vox for w in Weapon], device=device)[:, None, None]

    def each(fact: Callable[[Weapon], float]) -> Tensor:
        return torch.tensor([fact(w) for w in Weapon], device=device)[:, None, None]

    def arc(bearing_rad: float) -> Tensor:
        kinetic = (Weapon.GAUSS, Weapon.AUTOCANNON)
        return each(lambda w: exact.sine_64(bearing_rad, 0.5) if w in kinetic else WEAPONS[w].arc_cos)

    return AimTable(
        carriers=tuple(torch.tensor(owners[w], dtype=torch.int64, device=device) for w in Weapon),
        reach_vox=torch.where(carried[..., None] & hostile, reach_vox, -1.0),
        arc_cos=arc(KINETIC_AIM_RAD),
        focus_arc_cos=arc(KINETIC_AIM_FOCUS_RAD),
        needs_target=each(lambda w: w in BEAMS or w == Weapon.MISSILE).squeeze(-1),
        needs_line=each(lambda w: w in BEAMS),
        needs_lock=each(lambda w: w == Weapon.MISSILE),
        focus_only=each(lambda w: w == Weapon.SMOKE),
    )


def padded(values: list[int], length: int, filler: int) -> list[int]:
    """`values` brought to a length."""
    return values + [filler] * (length - len(values))
