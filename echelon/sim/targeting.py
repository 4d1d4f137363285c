"""Who can be aimed at, and who is. One rule for every aimed weapon."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.catalog import LOCK_QUALITY
from echelon.geometry import heading, length, pairwise_offset
from echelon.sim.game import Game
from echelon.sim.terrain import settle
from echelon.state import State


@dataclass(frozen=True)
class Aim:
    """How R mechs (rows; all N where nothing else is said) see every mech (columns) at this moment."""

    distance: Tensor
    """[B, R, N] vox, centre to centre."""
    bearing_cos: Tensor
    """[B, R, N] cosine of the angle between the heading and the target on the ground plane, times `ground`."""
    ground: Tensor
    """[B, R, N] vox, distance on the ground plane."""
    enemy: Tensor
    """[B, R, N] bool: a living mech of the other team."""

    def within(self, arc_cos: float | Tensor) -> Tensor:
        """`[B, R, N]` bool: the target's bearing lies within the arc, given by the cosine of its half."""
        return self.bearing_cos >= arc_cos * self.ground

    def of(self, mechs: Tensor) -> Aim:
        """The rows of the mechs `[R]` int64 alone."""
        return Aim(
            self.distance[:, mechs],
            self.bearing_cos[:, mechs],
            self.ground[:, mechs],
            self.enemy[:, mechs],
        )


def take_aim(state: State, game: Game) -> Aim:
    """Measure every pair once; all weapons of the phase read the result."""
    mechs = state.mechs
    offset = pairwise_offset(mechs.pos)
    facing = heading(mechs.yaw)
    return Aim(
        distance=settle(length(offset)),
        bearing_cos=settle((offset[..., :2] * facing[:, :, None]).sum(-1)),
        ground=settle(length(offset[..., :2])),
        enemy=game.roster.hostile & mechs.alive[:, None],
    )


def choose(candidate: Tensor, distance: Tensor, focus: Tensor) -> tuple[Tensor, Tensor]:
    """The focus target if it is a candidate, else the nearest, ties to the lowest index.

    Args:
        candidate: `[B, R, N]` bool, by shooter and target.
        distance: `[B, R, N]` vox.
        focus: `[B, R]` int64, `NO_MECH` for none.

    Returns:
        `[B, R]` bool, whether there is a target, and `[B, R]` int64, its index (0 where there is none).
    """
    reach = torch.where(candidate, distance, torch.inf)
    nearest, target = reach.min(-1)
    wanted = focus.clamp_min(0)
    has_focus = (focus >= 0) & candidate.gather(-1, wanted[..., None]).squeeze(-1)
    return nearest.isfinite(), torch.where(has_focus, wanted, target)


def painted_by_pack(state: State, game: Game) -> Tensor:
    """`[B, N, N]` bool: the pack of the mech in the row has painted the mech in the column."""
    return state.mechs.paint[..., game.roster.pack].transpose(1, 2) > 0


def shown_by_paint(state: State, quality: Tensor, game: Game) -> Tensor:
    """`[B, N, N]` bool: painted by the row's pack, and its sensors, of `quality [B, N]`, can make use of it."""
    return painted_by_pack(state, game) & (quality >= LOCK_QUALITY)[..., None]
