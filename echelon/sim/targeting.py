"""Target selection for all aimed weapons, and its inputs: distances, bearings and paint."""

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
    """Relative positions of all pairs of mechs: the row's mech aims at the column's mech."""

    distance: Tensor
    """[B, N, N] vox, centre to centre."""
    bearing_cos: Tensor
    """[B, N, N] cosine of the angle between the heading and the target on the ground plane, times `ground`."""
    ground: Tensor
    """[B, N, N] vox, centre to centre on the ground plane."""

    def within(self, arc_cos: float | Tensor) -> Tensor:
        """`[B, W, N, N]` bool: the bearing is within a firing arc, given as the cosine of half the arc."""
        return self.bearing_cos[:, None] >= arc_cos * self.ground[:, None]


def take_aim(state: State) -> Aim:
    """Compute the distances and bearings of all pairs of mechs."""
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
    """Select for each row's mech the values of its own pack, from `[B, N, P]` by mech and pack, to `[B, N, N]`."""
    return by_pack[..., sim_model.roster.pack].transpose(1, 2)


def painted_by_pack(state: State, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` bool: the pack of the row's mech has painted (marked) the column's mech."""
    return of_own_pack(state.mechs.paint, sim_model) > 0


def shown_by_paint(state: State, quality: Tensor, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` bool: the pack of the row's mech has painted (marked) the column's mech, and the row's sensor
    `quality [B, N]` permits a lock."""
    return painted_by_pack(state, sim_model) & (quality >= sim_model.catalog.lock_quality)[..., None]


def designate(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """Select the target of each weapon of each mech: the focus target if it is a candidate, else the nearest candidate.

    A candidate is alive, in range, inside the firing arc, and visible or locked as the weapon requires. If several
    candidates are equally near, the lowest index counts.

    Args:
        aim: distances and bearings of all pairs.
        line: the row's mech has a clear line to the column's mech, `[B, N, N]` bool.
        lock: missiles of the row's mech can lock on the column's mech, `[B, N, N]` bool.
        focus: each mech's focus target or `NO_MECH`, `[B, N]` int64.
        alive: living mechs, `[B, N]` bool.
        guns: range, arcs and requirements of the weapons.

    Returns:
        `[B, W, N]` bool, true with a target, and `[B, W, N]` int64, index of the target, 0 without one.
    """
    indices = torch.arange(focus.shape[1], device=focus.device)
    is_focus = materialize(focus[..., None] == indices)[:, None]  # [B, 1, N, N]
    arc_cos = torch.where(is_focus, guns.focus_arc_cos, guns.arc_cos)
    is_visible = (line[:, None] | ~guns.needs_line) & (lock[:, None] | ~guns.needs_lock) & (is_focus | ~guns.focus_only)
    in_reach = (aim.distance[:, None] <= guns.reach_vox) & aim.within(arc_cos)
    candidate = alive[:, None, None] & in_reach & is_visible  # [B, W, N, N]
    return focus_or_nearest(candidate, aim.distance[:, None], is_focus)


def focus_or_nearest(candidate: Tensor, distance: Tensor, is_focus: Tensor) -> tuple[Tensor, Tensor]:
    """Select the focus target if it is a candidate, else the nearest candidate. If several candidates are equally near,
    the lowest index counts.

    Args:
        candidate: possible targets, `[..., N]` bool.
        distance: distances to all mechs, `[..., N]` vox.
        is_focus: the focus target, true for at most one mech, `[..., N]` bool.

    Returns:
        `[...]` bool, true with a target, and `[...]` int64, index of the target, 0 without one.
    """
    first, target = torch.where(candidate, torch.where(is_focus, -1.0, distance), torch.inf).min(-1)
    return first.isfinite(), target
