"""Who can be aimed at, and who is. One rule for every aimed weapon."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.geometry import heading, length, pairwise_offset
from echelon.sim.game import Game
from echelon.state import State


@dataclass(frozen=True)
class Aim:
    """How every mech (rows) sees every other (columns) at this moment."""

    offset: Tensor
    """[B, N, N, 3] vox, centre to centre."""
    distance: Tensor
    """[B, N, N] vox."""
    bearing_cos: Tensor
    """[B, N, N] cosine of the angle between the heading and the target on the ground plane, times `ground`."""
    ground: Tensor
    """[B, N, N] vox, distance on the ground plane."""
    enemy: Tensor
    """[B, N, N] bool: a living mech of the other team."""

    def within(self, arc_cos: float | Tensor) -> Tensor:
        """`[B, N, N]` bool: the target's bearing lies within the arc, given by the cosine of its half."""
        return self.bearing_cos >= arc_cos * self.ground


def take_aim(state: State, game: Game) -> Aim:
    """Measure every pair once; all weapons of the phase read the result."""
    mechs = state.mechs
    offset = pairwise_offset(mechs.pos)
    facing = heading(mechs.yaw)
    return Aim(
        offset=offset,
        distance=length(offset),
        bearing_cos=(offset[..., :2] * facing[:, :, None]).sum(-1),
        ground=length(offset[..., :2]),
        enemy=game.roster.hostile & mechs.alive[:, None],
    )


def choose(candidate: Tensor, distance: Tensor, focus: Tensor) -> tuple[Tensor, Tensor]:
    """The focus target if it is a candidate, else the nearest, ties to the lowest index.

    Args:
        candidate: `[B, N, N]` bool, by shooter and target.
        distance: `[B, N, N]` vox.
        focus: `[B, N]` int64, `NO_MECH` for none.

    Returns:
        `[B, N]` bool, whether there is a target, and `[B, N]` int64, its index (0 where there is none).
    """
    reach = torch.where(candidate, distance, torch.inf)
    nearest, target = reach.min(-1)
    wanted = focus.clamp_min(0)
    has_focus = (focus >= 0) & candidate.gather(-1, wanted[..., None]).squeeze(-1)
    return nearest.isfinite(), torch.where(has_focus, wanted, target)
