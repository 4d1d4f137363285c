"""Shortest paths around obstacles on each mech's local map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from echelon.agents.gunnery import Loadout
from echelon.agents.view import View, by_hull, float_table, hull_table
from echelon.env.observation.layout import LOCAL_MAP_CELLS
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.runtime.geometry import dot, length, to_world, unit

REACH = LOCAL_MAP_CELLS // 2
WALL_COST = 30.0
"""Detour in voxels worth taking around a solid cell. Finite, because a mech can climb a step one voxel high."""
GRAZE_COST = 4.0
"""The same for a cell next to a solid one, where a hull would touch it."""
MECH_COST = 6.0
"""The same for a cell occupied by a mech."""
BROAD_VOX = 1.5
"""Half width above which a hull touches walls two cells away."""
ELBOW_VOX = 0.1
"""Clearance between hulls."""
KEEP_ON = 0.5
"""Detour in voxels worth taking to keep the current direction, which avoids oscillation between two paths."""
SWEEPS = 9
"""Longest path in cells."""
GOAL_VOX = 8.0
"""Distance of the path's goal: beyond the visible cells."""
ALIKE = 0.95
"""Cosine above which a found path counts as straight."""
UNREACHED = 1e3
DIAGONAL = math.sqrt(2)
RING = tuple((dx, dy) for dx, dy in itertools.product(range(-2, 3), repeat=2) if max(abs(dx), abs(dy)) == 2)
"""Cells at distance two: 16 directions."""


class Wayfinder(nn.Module):
    """Finds paths on the 11 x 11 cells around a mech, in its body frame."""

    cells: Tensor
    is_edge: Tensor
    ring: Tensor
    ring_vox: Tensor
    ring_place: Tensor
    floor_place: Tensor
    ceil_place: Tensor
    half_vox: Tensor

    def __init__(self, loadouts: Mapping[Hull, Loadout]) -> None:
        super().__init__()
        side = float_table(range(-REACH, LOCAL_MAP_CELLS - REACH))
        cells = torch.stack(torch.meshgrid(side, side, indexing="ij"), -1)
        ring = float_table(RING)

        def places(offsets: list[tuple[int, int]]) -> Tensor:
            return torch.tensor([(REACH + dx) * LOCAL_MAP_CELLS + REACH + dy for dx, dy in offsets], device="cpu")

        tables = {
            "cells": cells,  # [11, 11, 2] vox
            "is_edge": cells.abs().amax(-1) == REACH,
            "ring": unit(ring),
            "ring_vox": length(ring),
            "ring_place": places(list(RING)),
            "floor_place": places([(math.floor(dx / 2), math.floor(dy / 2)) for dx, dy in RING]),
            "ceil_place": places([(math.ceil(dx / 2), math.ceil(dy / 2)) for dx, dy in RING]),
            "half_vox": hull_table({hull: max(loadout.hull.size[:2]) / 2 for hull, loadout in loadouts.items()}),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, view: View, direction: Tensor) -> Tensor:
        """Return the first direction `[B, A, 2]` of the path towards `direction [B, A, 2]`, scaled to the length of
        `direction`."""
        straight = unit(direction)
        entry = self.entry_cost(view)
        cost = self.way_cost(entry, GOAL_VOX * straight).flatten(-2)
        entry = entry.flatten(-2)
        midway = 0.5 * (entry[..., self.floor_place] + entry[..., self.ceil_place])
        onwards = dot(self.ring.unbind(-1), unit(view.velocity)[..., None, :].unbind(-1))
        costs = cost[..., self.ring_place] + midway + self.ring_vox - KEEP_ON * onwards  # [B, A, 16]
        cheapest = costs == costs.amin(-1, keepdim=True)
        first = cheapest & (cheapest.cumsum(-1) == 1)
        detour = exact.sum(first[..., None] * self.ring, -2)
        agrees = dot(detour.unbind(-1), straight.unbind(-1))[..., None] > ALIKE
        return torch.where(agrees, straight, detour) * length(direction)[..., None]

    def way_cost(self, entry: Tensor, goal: Tensor) -> Tensor:
        """Return the path cost `[B, A, 11, 11]` in voxels from every cell to `goal [B, A, 2]`, which lies beyond the
        edge of the local map."""
        beyond = length(goal[..., None, None, :] - self.cells)
        cost = entry + torch.where(self.is_edge, beyond, UNREACHED)
        for _ in range(SWEEPS):
            padded = pad(cost, (1, 1, 1, 1), value=UNREACHED)
            sides = torch.minimum(padded[..., :-2], padded[..., 2:])  # [B, A, 13, 11]
            straight = torch.minimum(sides[..., 1:-1, :], torch.minimum(padded[..., :-2, 1:-1], padded[..., 2:, 1:-1]))
            diagonal = torch.minimum(sides[..., :-2, :], sides[..., 2:, :])
            step = torch.minimum(straight + 1, diagonal + DIAGONAL)
            cost = torch.minimum(cost, entry + step)
        return cost

    def entry_cost(self, view: View) -> Tensor:
        """Return the cost of entering each cell, `[B, A, 11, 11]`: the detour, in voxels, worth taking to avoid the
        cell."""
        own_half = view.of_hull(self.half_vox)
        near_wall = spread(view.local_map)
        grazes = torch.where((own_half > BROAD_VOX)[..., None, None], spread(near_wall), near_wall)

        mechs = torch.cat((view.comrades, view.contacts.offset[..., :2]), -2)  # [B, A, K, 2]
        half = by_hull(torch.cat((view.comrade_hull, view.contacts.hull), -2), self.half_vox)
        clearance = torch.where(half > 0, half + own_half[..., None] + ELBOW_VOX, 0.0)
        is_taken = self.taken(view.heading, mechs, clearance)
        return WALL_COST * view.local_map + GRAZE_COST * grazes + MECH_COST * is_taken.float()

    def taken(self, heading: Tensor, others: Tensor, clearance: Tensor) -> Tensor:
        """Return in which cells the mech's hull would touch one of `others [B, A, K, 2]`, `[B, A, 11, 11]` bool.

        Args:
            clearance: smallest distance between the two centers along an axis, `[B, A, K]` vox.
        """
        # A mech's hull is a box aligned with the map's axes, so convert positions to map axes first.
        frame = heading[..., None, :]
        x, y = to_world(self.cells.flatten(0, 1).expand(*heading.shape[:-1], -1, 2), frame).unbind(-1)  # [B, A, 121]
        other_x, other_y = to_world(others, frame.expand_as(others)).unbind(-1)
        is_taken = torch.zeros_like(x, dtype=torch.bool)
        for k in range(others.shape[-2]):
            near_x = (x - other_x[..., k, None]).abs() < clearance[..., k, None]
            near_y = (y - other_y[..., k, None]).abs() < clearance[..., k, None]
            is_taken = is_taken | (near_x & near_y)
        return is_taken.unflatten(-1, (LOCAL_MAP_CELLS, LOCAL_MAP_CELLS))


def spread(grid: Tensor) -> Tensor:
    """Return, for each cell, the largest value among the cell and its 8 neighbours, `[..., 11, 11]`."""
    padded = pad(grid, (1, 1, 1, 1))
    rows = torch.maximum(torch.maximum(padded[..., :-2, :], padded[..., 2:, :]), padded[..., 1:-1, :])
    return torch.maximum(torch.maximum(rows[..., :-2], rows[..., 2:]), rows[..., 1:-1])
