"""The weapons of a battle as tensors: aiming requirements, and effects on targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.catalog import KINETIC_AIM_FOCUS_RAD, KINETIC_AIM_RAD
from echelon.rules.config import EnvConfig
from echelon.rules.specs import WeaponSpec
from echelon.runtime import exact


@dataclass(frozen=True)
class DamageSources:
    """R sources of damage, such as the mechs that carry a laser, or all shot slots. Tensors are `[R]` float32 unless
    stated."""

    weapon: Tensor
    """[R, W] one-hot weapon of each source."""
    span: tuple[slice, ...]
    """Range of rows of each weapon."""
    shooter: Tensor
    """int64, index of the mech that owns the source."""
    rows_of: Tensor
    """[N, K] int64: the rows of mech n, padded with R."""
    damage: Tensor
    stability: Tensor
    target_heat: Tensor
    suppress: Tensor
    """Substeps of suppression."""
    splash_vox: Tensor
    splash_scale: Tensor

    @property
    def count(self) -> int:
        return self.shooter.shape[0]

    def by_shooter(self, per_row: Tensor) -> Tensor:
        """Sum `[B, R, ...]` over the rows of each mech to `[B, N, ...]`, in a fixed order."""
        zero_row = per_row.new_zeros((per_row.shape[0], 1, *per_row.shape[2:]))
        return exact.sum(torch.cat((per_row, zero_row), 1)[:, self.rows_of], 2).to(per_row.dtype)

    def by_weapon(self, per_row: Tensor) -> Tensor:
        """Sum `[B, R, ...]` over the rows of each weapon to `[B, W, ...]`."""
        return torch.stack([exact.sum(per_row[:, span], 1) for span in self.span], 1)


SAME = ("damage", "stability", "target_heat", "splash_vox", "splash_scale")
"""Fields copied unchanged from the weapon's row of the catalog."""


@dataclass(frozen=True)
class AimTable:
    """Aiming requirements of the W weapons of a catalog, for N mechs."""

    carriers: tuple[Tensor, ...]
    """For each weapon `[R]` int64: the mechs that carry it."""
    reach_vox: Tensor
    """`[W, N, N]` range of each weapon, by shooter and target. -1 for friends, and for shooters without the weapon."""
    arc_cos: Tensor
    """`[W, 1, 1]` cosine of half the firing arc."""
    focus_arc_cos: Tensor
    """`[W, 1, 1]` cosine of half the firing arc against the focus target."""
    needs_target: Tensor
    """`[W, 1]` bool: the weapon does not fire without a target."""
    needs_line: Tensor
    """`[W, 1, 1]` bool: the weapon needs a clear line to its target."""
    needs_lock: Tensor
    """`[W, 1, 1]` bool: the weapon needs a lock on its target."""
    focus_only: Tensor
    """`[W, 1, 1]` bool: the weapon aims only at the focus target, else straight ahead."""

    any_lock: bool
    """True if any mech carries a weapon that needs a lock."""
    line_vox: float
    """Maximum length of clear lines that matter: for weapons that need a line, and for locks on sight."""

    def exist(self, weapon: int) -> bool:
        return self.carriers[weapon].shape[0] > 0


def build_damage_sources(
    sources: list[tuple[int, int]], config: EnvConfig, count: int, device: torch.device
) -> DamageSources:
    """Build a row for each (weapon, shooter) pair of `sources`, which must be grouped by weapon."""
    rows = [[r for r, (_, owner) in enumerate(sources) if owner == n] for n in range(count)]
    widest = max(1, *(len(row) for row in rows))
    weapons = tuple(config.catalog.weapons.values())
    specs = [weapons[w] for w, _ in sources]
    runs = {w: [r for r, (v, _) in enumerate(sources) if v == w] or [0, -1] for w in range(len(weapons))}

    def column(values: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return DamageSources(
        weapon=column([float(w == v) for w, _ in sources for v in runs]).view(-1, len(weapons)),
        span=tuple(slice(run[0], run[-1] + 1) for run in runs.values()),
        shooter=column([n for _, n in sources], torch.int64),
        rows_of=torch.tensor([padded(row, widest, len(sources)) for row in rows], device=device),
        suppress=column([config.rules.substeps(s.suppress_s) for s in specs]),
        **{name: column([getattr(spec, name) for spec in specs]) for name in SAME},
    )


def build_aim_table(config: EnvConfig, owners: list[list[int]], hostile: Tensor) -> AimTable:
    """Build the aim table.

    Args:
        config: the battle.
        owners: for each weapon, the mechs that carry it.
        hostile: pairs of enemies, `[N, N]` bool.
    """
    device, specs = hostile.device, tuple(config.catalog.weapons.values())
    carried = torch.tensor([[n in mechs for n in range(len(hostile))] for mechs in owners], device=device)
    reach_vox = torch.tensor([spec.range_vox for spec in specs], dtype=torch.float32, device=device)[:, None, None]

    def each(fact: Callable[[WeaponSpec], float], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor([fact(spec) for spec in specs], dtype=dtype, device=device)[:, None, None]

    def need(what: str) -> Tensor:
        return each(lambda spec: what in spec.needs, torch.bool)

    def arc(bearing_rad: float) -> Tensor:
        return each(lambda spec: spec.arc_cos if spec.needs else exact.sine_64(bearing_rad, 0.5))

    locks = any("lock" in spec.needs and mechs for spec, mechs in zip(specs, owners, strict=True))
    sighted = [spec.range_vox for spec, mechs in zip(specs, owners, strict=True) if "line" in spec.needs and mechs]
    return AimTable(
        carriers=tuple(torch.tensor(mechs, dtype=torch.int64, device=device) for mechs in owners),
        reach_vox=torch.where(carried[..., None] & hostile, reach_vox, -1.0),
        arc_cos=arc(KINETIC_AIM_RAD),
        focus_arc_cos=arc(KINETIC_AIM_FOCUS_RAD),
        needs_target=need("target").squeeze(-1),
        needs_line=need("line"),
        needs_lock=need("lock"),
        focus_only=need("focus"),
        any_lock=locks,
        line_vox=max([config.catalog.sight_lock_vox, *sighted]),
    )


def padded(values: list[int], length: int, filler: int) -> list[int]:
    return values + [filler] * (length - len(values))
