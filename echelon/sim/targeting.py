"""Inputs of target selection: distances, bearings and paint. `kernels.designate` selects the targets."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

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


def take_aim(state: State, game: SimModel) -> Aim:
    """Compute distances and bearings of all pairs, shared by all weapons of a phase."""
    mechs = state.mechs
    x, y, z = (materialize(at[:, None] - at[:, :, None]) for at in axes(mechs.pos))  # [B, N, N] each
    ahead_x, ahead_y = (at[..., None] for at in axes(heading(mechs.yaw)))
    ground_sq = x.square() + y.square()
    return Aim(
        distance=materialize(exact.sqrt(ground_sq + z.square())),
        bearing_cos=materialize(x * ahead_x + y * ahead_y),
        ground=materialize(exact.sqrt(ground_sq)),
    )


def of_own_pack(by_pack: Tensor, game: SimModel) -> Tensor:
    """`[B, N, N]`: of values `[B, N, P]` of each mech by pack, those for the pack of the mech in the row."""
    return by_pack[..., game.roster.pack].transpose(1, 2)


def painted_by_pack(state: State, game: SimModel) -> Tensor:
    """`[B, N, N]` bool: the pack of the mech in the row has painted the mech in the column."""
    return of_own_pack(state.mechs.paint, game) > 0


def shown_by_paint(state: State, quality: Tensor, game: SimModel) -> Tensor:
    """`[B, N, N]` bool: painted by the pack of the row, with sensors of `quality [B, N]` good enough for a lock."""
    return painted_by_pack(state, game) & (quality >= game.catalog.lock_quality)[..., None]
