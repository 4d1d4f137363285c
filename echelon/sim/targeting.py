"""Target selection, one rule for all aimed weapons, and its inputs: distances, bearings and paint."""

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.damage_sources import AimTable
from echelon.runtime import exact
from echelon.runtime.compile import axes, materialize
from echelon.runtime.geometry import heading
from echelon.sim.model import SimModel
from echelon.state import State


@dataclass(frozen=True)
class Aim:
    """Relative positions of all pairs of mechs: the rows aim at the columns."""

    distance: Tensor
    """[B, N, N] vox, centre to centre."""
    bearing_cos: Tensor
    """[B, N, N] cosine of the angle between the heading and the target on the ground plane, times `ground`."""
    ground: Tensor
    """[B, N, N] vox, distance on the ground plane."""

    def within(self, arc_cos: float | Tensor) -> Tensor:
        """`[B, W, N, N]` bool: the bearing is within the firing arc, given by the cosine of half its angle."""
        return self.bearing_cos[:, None] >= arc_cos * self.ground[:, None]


def take_aim(state: State) -> Aim:
    """Compute distances and bearings of all pairs, shared by all weapons of a phase."""
    mechs = state.mechs
    x, y, z = (materialize(u[:, None] - u[:, :, None]) for u in axes(mechs.pos))  # [B, N, N] each
    ahead_x, ahead_y = (u[..., None] for u in axes(heading(mechs.yaw)))
    ground_sq = x.square() + y.square()
    return Aim(
        distance=materialize(exact.sqrt(ground_sq + z.square())),
        bearing_cos=materialize(x * ahead_x + y * ahead_y),
        ground=materialize(exact.sqrt(ground_sq)),
    )


def of_own_pack(by_pack: Tensor, sim_model: SimModel) -> Tensor:
    """`[B, N, N]`: of values `[B, N, P]` of each mech by pack, those for the pack of the mech in the row."""
    return by_pack[..., sim_model.roster.pack].transpose(1, 2)


def painted_by_pack(state: State, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` bool: the pack of the mech in the row has painted the mech in the column."""
    return of_own_pack(state.mechs.paint, sim_model) > 0


def shown_by_paint(state: State, quality: Tensor, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` bool: painted by the pack of the row, with sensors of `quality [B, N]` good enough for a lock."""
    return painted_by_pack(state, sim_model) & (quality >= sim_model.catalog.lock_quality)[..., None]


def designate(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """The target of each weapon of each mech: its focus target if that is a candidate, else the nearest candidate.

    A candidate is alive, in range, inside the firing arc, and visible or locked as the weapon requires. Ties go to the
    lowest index.

    Args:
        aim: distances and bearings of all pairs.
        line, lock: `[B, N, N]` bool, the row has a clear line to the column, or its missiles can lock on it.
        focus: `[B, N]` int64, each mech's focus target or `NO_MECH`.
        alive: `[B, N]` bool.
        guns: range, arcs and requirements of the weapons.

    Returns:
        `[B, W, N]` bool, whether there is a target, and `[B, W, N]` int64, its index (0 where there is none).
    """
    indices = torch.arange(focus.shape[1], device=focus.device)
    is_focus = materialize(focus[..., None] == indices)[:, None]  # [B, 1, N, N]
    arc_cos = torch.where(is_focus, guns.focus_arc_cos, guns.arc_cos)
    is_visible = (line[:, None] | ~guns.needs_line) & (lock[:, None] | ~guns.needs_lock) & (is_focus | ~guns.focus_only)
    in_reach = (aim.distance[:, None] <= guns.reach_vox) & aim.within(arc_cos)
    candidate = alive[:, None, None] & in_reach & is_visible  # [B, W, N, N]
    return focus_or_nearest(candidate, aim.distance[:, None], is_focus)


def focus_or_nearest(candidate: Tensor, distance: Tensor, is_focus: Tensor) -> tuple[Tensor, Tensor]:
    """The focus target if it is a candidate, else the nearest, ties to the lowest index.

    Args:
        candidate: `[..., N]` bool, by target.
        distance: `[..., N]` vox.
        is_focus: `[..., N]` bool, true for at most one target.

    Returns:
        `[...]` bool, whether there is a target, and `[...]` int64, its index (0 where there is none).
    """
    first, target = torch.where(candidate, torch.where(is_focus, -1.0, distance), torch.inf).min(-1)
    return first.isfinite(), target
