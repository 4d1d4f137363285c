"""Who can be aimed at, and who is. One rule for every aimed weapon."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.catalog import LOCK_QUALITY
from echelon.rules.damage_sources import AimTable
from echelon.runtime import exact
from echelon.runtime.compile import axes, materialize
from echelon.runtime.geometry import heading
from echelon.sim.model import SimModel
from echelon.sim.terrain import HAS_LOOPS, loops_on
from echelon.state import State

if HAS_LOOPS:
    from echelon.sim.loops import point


@dataclass(frozen=True)
class Aim:
    """How every mech (rows) sees every mech (columns) at this moment."""

    distance: Tensor
    """[B, N, N] vox, centre to centre."""
    bearing_cos: Tensor
    """[B, N, N] cosine of the angle between the heading and the target on the ground plane, times `ground`."""
    ground: Tensor
    """[B, N, N] vox, distance on the ground plane."""

    def within(self, arc_cos: float | Tensor) -> Tensor:
        """`[B, W, N, N]` bool: the target's bearing lies within the arc, given by the cosine of its half."""
        return self.bearing_cos[:, None] >= arc_cos * self.ground[:, None]


def take_aim(state: State, game: SimModel) -> Aim:
    """Measure every pair once; all weapons of the phase read the result."""
    mechs = state.mechs
    x, y, z = (materialize(at[:, None] - at[:, :, None]) for at in axes(mechs.pos))  # [B, N, N] each
    ahead_x, ahead_y = (at[..., None] for at in axes(heading(mechs.yaw)))
    ground_sq = x.square() + y.square()
    return Aim(
        distance=materialize(exact.sqrt(ground_sq + z.square())),
        bearing_cos=materialize(x * ahead_x + y * ahead_y),
        ground=materialize(exact.sqrt(ground_sq)),
    )


def designate(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """Whom each gun is aimed at: one rule for all of them.

    Args:
        line, lock: `[B, N, N]` bool, the row has a clear line to the column, or its missiles can lock on it.
        focus: `[B, N]` int64, each mech's focus target or `NO_MECH`.
        alive: `[B, N]` bool.

    Returns:
        `[B, W, N]` bool, whether there is a target, and `[B, W, N]` int64, its index (0 where there is none).
    """
    if loops_on(line.device):
        kind = torch.stack((guns.needs_line, guns.needs_lock, guns.focus_only)).flatten(1)
        arcs = torch.stack((guns.arc_cos, guns.focus_arc_cos)).flatten(1)
        pairs = (aim.distance, aim.bearing_cos, aim.ground, line, lock)
        return point(*pairs, focus, alive, guns.reach_vox, arcs, kind)
    return designate_in_closed_form(aim, line, lock, focus, alive, guns)


def designate_in_closed_form(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """`designate` by every gun held against every target."""
    everyone = torch.arange(focus.shape[1], device=focus.device)
    is_focus = materialize(focus[..., None] == everyone)[:, None]  # [B, 1, N, N]
    arc_cos = torch.where(is_focus, guns.focus_arc_cos, guns.arc_cos)
    seen = (line[:, None] | ~guns.needs_line) & (lock[:, None] | ~guns.needs_lock) & (is_focus | ~guns.focus_only)
    in_reach = (aim.distance[:, None] <= guns.reach_vox) & aim.within(arc_cos)
    candidate = alive[:, None, None] & in_reach & seen  # [B, W, N, N]
    return choose(candidate, aim.distance[:, None], is_focus)


def choose(candidate: Tensor, distance: Tensor, is_focus: Tensor) -> tuple[Tensor, Tensor]:
    """The focus target if it is a candidate, else the nearest, ties to the lowest index.

    Args:
        candidate: `[..., N]` bool, by target.
        distance: `[..., N]` vox.
        is_focus: `[..., N]` bool, true of one target at most.

    Returns:
        `[...]` bool, whether there is a target, and `[...]` int64, its index (0 where there is none).
    """
    first, target = torch.where(candidate, torch.where(is_focus, -1.0, distance), torch.inf).min(-1)
    return first.isfinite(), target


def painted_by_pack(state: State, game: SimModel) -> Tensor:
    """`[B, N, N]` bool: the pack of the mech in the row has painted the mech in the column."""
    return state.mechs.paint[..., game.roster.pack].transpose(1, 2) > 0


def shown_by_paint(state: State, quality: Tensor, game: SimModel) -> Tensor:
    """`[B, N, N]` bool: painted by the row's pack, and its sensors, of `quality [B, N]`, can make use of it."""
    return painted_by_pack(state, game) & (quality >= LOCK_QUALITY)[..., None]
