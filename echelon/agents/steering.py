"""Walk directions of the scripted commanders."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from echelon.agents.tiers import Tier
from echelon.agents.view import Target, View, float_table, hull_table, sign
from echelon.env.observation.layout import LOCAL_MAP_CELLS
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.runtime.geometry import dot, length, unit

CLOSE_RANGE_VOX = {Hull.SCOUT: 10.0, Hull.LIGHT: 5.0, Hull.MEDIUM: 7.0, Hull.HEAVY: 6.0}
"""Fighting range of each class inside the zone."""
BATTLE_RANGE_VOX = {Hull.SCOUT: 9.0, Hull.LIGHT: 4.0, Hull.MEDIUM: 9.0, Hull.HEAVY: 10.0}
"""Fighting range if the tier seeks battle: within reach of its best weapon, out of reach of the enemies'."""
ZONE_DEPTH = 0.5
"""A mech moves inwards until it is within this share of the zone's radius."""
EASE_VOX = 2.0
"""Distance to its goal below which a mech slows down."""
RIM_VOX = 3.0
"""Width of the rim in which the zone's pull grows from 0 to 1."""
UNSEEN_VOX = 4.0
"""Distance to which a mech approaches a target that it cannot see."""
CIRCLE_ON = 0.7
"""Share of the zone's radius that a circling mech passes the middle by before it turns back."""
CHARGE_VOX = 4.0
"""Distance below which a light mech stops its charge and moves behind the target."""
CHARGE = 3.0
"""Weight of a charge relative to circling and the zone."""
REAR_VOX = 3.5
"""Distance behind its target that a flanker moves to, within its fire's range."""
TOO_HOT = 0.85
"""Share of the heat capacity above which a mech looks for cover."""
COVER_VOX = (2, 3, 4)
"""Distances at which a mech looks for cover."""
COVER_WAYS = ((1, 0), (0.7, 0.7), (0, 1), (-0.7, 0.7), (-1, 0), (-0.7, -0.7), (0, -1), (0.7, -0.7))
COVER_DEPTH_VOX = (1, 2, 3)
"""Distances between a covered place and its wall."""


class Helm(nn.Module):
    """Compute the walk direction `[B, A, 2]` in each mech's body frame, as a share of its top speed."""

    range_vox: Tensor
    places: Tensor
    depths: Tensor

    def __init__(self, tier: Tier) -> None:
        super().__init__()
        self.tier = tier
        default = BATTLE_RANGE_VOX if tier.seeks_battle else CLOSE_RANGE_VOX
        ranges = dict(zip(Hull, tier.range_vox, strict=True)) if tier.range_vox else default
        offsets = float_table([(x * vox, y * vox) for vox in COVER_VOX for x, y in COVER_WAYS])
        self.register_buffer("range_vox", hull_table(ranges), persistent=False)
        self.register_buffer("places", offsets, persistent=False)
        self.register_buffer("depths", float_table(COVER_DEPTH_VOX), persistent=False)

    def forward(self, view: View, target: Target) -> Tensor:
        """Return the walk directions of `[B, A]` mechs, scaled by the tier's pace."""
        return self.tier.pace * self.choose(view, target)

    def choose(self, view: View, target: Target) -> Tensor:
        """Return the directions before scaling by the tier's pace."""
        if not self.tier.seeks_battle:
            return self.hold_zone(view, target)
        walk = self.seek_battle(view, target)
        if self.tier.takes_cover:
            cover = self.cover(view, target)
            walk = torch.where((length(cover) > 0)[..., None], cover, walk)
        return walk

    def hold_zone(self, view: View, target: Target) -> Tensor:
        """Walk to the zone. Near the zone's edge, move inwards; further inside, keep the fighting range to the
        target, if the tier does."""
        shallow = length(view.to_zone) > (ZONE_DEPTH * view.zone_radius).clamp_max(self.tier.core_vox)
        inside = torch.where(shallow[..., None], unit(view.to_zone), 0.0)
        if self.tier.keeps_range:
            inside = torch.where((target.exists & ~shallow)[..., None], self.close_in(view, target), inside)
        return torch.where(view.in_zone[..., None], inside, view.path)

    def seek_battle(self, view: View, target: Target) -> Tensor:
        """Walk to the zone. Near the zone, move to a fighting position against the target, with a pull towards the
        zone."""
        distance = length(view.to_zone)
        depth = exact.divide(distance - ZONE_DEPTH * view.zone_radius, RIM_VOX).clamp(0, 1)
        pull = depth[..., None] * unit(view.to_zone)
        walk = torch.where(view.in_zone[..., None], pull, view.path)
        fight = self.engage(view, target) + self.tier.pull * pull
        fight = fight / length(fight).clamp_min(1.0)[..., None]
        is_near = distance < view.zone_radius + self.tier.leash_vox
        fights = is_near & target.exists & (target.distance < self.tier.notice_vox)
        return torch.where(fights[..., None], fight, walk)

    def engage(self, view: View, target: Target) -> Tensor:
        """Keep the fighting range to a visible target; approach a target that is not visible."""
        approach = unit(target.offset[..., :2]) * (target.distance > UNSEEN_VOX)[..., None]
        engage = torch.where(target.clear[..., None], self.close_in(view, target), approach)
        if self.tier.flanks:
            flankers = functools.reduce(torch.logical_or, map(view.is_a, self.tier.flankers))
            engage = torch.where(flankers[..., None], flank(target), engage)
        if self.tier.circles:
            engage = engage + circle(view, target)
        return engage

    def close_in(self, view: View, target: Target) -> Tensor:
        """Approach a target beyond the fighting range, and retreat from a nearer target."""
        beyond = target.distance - view.of_hull(self.range_vox)
        return unit(target.offset[..., :2]) * (beyond / EASE_VOX).clamp(-1, 1)[..., None]

    def cover(self, view: View, target: Target) -> Tensor:
        """Walk to the nearest place that a wall hides from the target, if under fire and too hot to shoot back."""
        hard_pressed = view.under_fire & target.clear & (view.heat > TOO_HOT)
        points = self.places.expand(*hard_pressed.shape, -1, 2)
        towards = unit(target.offset[..., None, :2] - points)
        walls = points[..., None, :] + towards[..., None, :] * self.depths[:, None]  # [B, A, P, 3, 2]
        walled = solid_at(view.local_map, walls.flatten(-3, -2)).unflatten(-1, walls.shape[-3:-1]).any(-1)
        hidden = walled & ~solid_at(view.local_map, points)
        nearest = hidden & (hidden.cumsum(-1) == 1)
        return unit(exact.sum(nearest[..., None] * points, -2)) * hard_pressed[..., None]


def solid_at(local_map: Tensor, points: Tensor) -> Tensor:
    """Return whether `points [B, A, P, 2]` of each mech's local map are solid, `[B, A, P]` bool."""
    ahead, left = (points.round().long() + LOCAL_MAP_CELLS // 2).clamp(0, LOCAL_MAP_CELLS - 1).unbind(-1)
    return local_map.flatten(-2).gather(-1, ahead * LOCAL_MAP_CELLS + left) > 0


def flank(target: Target) -> Tensor:
    """Charge a distant target; move behind a near target."""
    behind = target.offset[..., :2] - REAR_VOX * target.facing
    to_back = behind / length(behind).clamp_min(EASE_VOX)[..., None]
    charge = CHARGE * unit(target.offset[..., :2])
    return torch.where((target.distance > CHARGE_VOX)[..., None], charge, to_back)


def circle(view: View, target: Target) -> Tensor:
    """Move sideways relative to a visible target, in the current direction, and turn back before leaving the zone."""
    direction = unit(target.offset[..., :2])
    across = torch.stack((-direction[..., 1], direction[..., 0]), -1)
    inwards = dot(across.unbind(-1), view.to_zone.unbind(-1)) / view.zone_radius.clamp_min(1.0)
    onwards = dot(across.unbind(-1), unit(view.velocity).unbind(-1))
    side = sign(inwards + CIRCLE_ON * onwards >= 0)
    return across * (side * target.clear)[..., None]
