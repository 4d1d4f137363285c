"""Battles that restart get the ground of their maps back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from echelon.env.select import select
from echelon.sim.kernels.dispatch import array, compiled, loops_on, shared_array
from echelon.state import Maps, Terrain


def restore_terrain(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """Set the terrain of the battles `which` to that of their maps, in place.

    Args:
        terrain: of B battles.
        which: `[B]` bool.
        map_id: `[B]` int64.
        maps: M maps.
    """
    if loops_on(which.device):
        own = (terrain.solid, terrain.opaque, terrain.rubble, terrain.damage)
        restore_terrain_loops(*own, which, map_id, maps.solid, maps.opaque)
    else:
        restore_terrain_dense(terrain, which, map_id, maps)


def restore_terrain_dense(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """`restore_terrain` by writing every battle."""
    for columns, original in ((terrain.solid, maps.solid), (terrain.opaque, maps.opaque)):
        columns.copy_(select(which, original[map_id], columns))
    for changes in (terrain.rubble, terrain.damage):
        changes.mul_(~which.view(-1, *[1] * (changes.dim() - 1)))


@torch.library.custom_op(
    "echelon::restore_terrain", mutates_args=("solid", "opaque", "rubble", "damage"), device_types="cpu"
)
def restore_terrain_loops(
    solid: Tensor,
    opaque: Tensor,
    rubble: Tensor,
    damage: Tensor,
    which: Tensor,
    map_id: Tensor,
    map_solid: Tensor,
    map_opaque: Tensor,
) -> None:
    """`restore_terrain` by writing the battles `which` only."""
    own = [shared_array(columns) for columns in (solid, opaque, rubble, damage)]
    _restore_terrain_loop(array(which), array(map_id), (array(map_solid), array(map_opaque)), *own)


@restore_terrain_loops.register_fake
def _(*tensors: Tensor) -> None:
    return None


@compiled
def _restore_terrain_loop(
    which: Any, map_id: Any, originals: Any, solid: Any, opaque: Any, rubble: Any, damage: Any
) -> None:
    """Writes to the last four; `originals` are the maps' solid and opaque columns."""
    for battle in range(which.shape[0]):
        if which[battle]:
            solid[battle] = originals[0][map_id[battle]]
            opaque[battle] = originals[1][map_id[battle]]
            rubble[battle] = 0
            damage[battle] = 0
