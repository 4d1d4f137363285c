"""Restores the ground of battles that begin anew, in place.

On a GPU one kernel of Triton, whose programs leave at once where a battle goes on: the ground is nine tenths of a
state. Without Triton, and in tests on a CPU, masks choose, and everything is read and written.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from echelon.env.select import select
from echelon.sim.kernels.dispatch import HAS_TRITON
from echelon.state import Maps, Terrain

PROGRAMS = 4
"""Programs a battle."""
BLOCK = 1024
"""Columns, or voxels, that a program writes at a time."""

if HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _restore(  # type: ignore[no-untyped-def]
        which,
        map_id,
        solid,
        opaque,
        rubble,
        damage,
        map_solid,
        map_opaque,
        columns: tl.constexpr,
        voxels: tl.constexpr,
        programs: tl.constexpr,
        block: tl.constexpr,
    ):
        battle, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
        if tl.load(which + battle) == 0:
            return
        own, original = battle * columns, tl.load(map_id + battle) * columns
        for begin in range(part * block, columns, programs * block):
            at = begin + tl.arange(0, block)
            inside = at < columns
            tl.store(solid + own + at, tl.load(map_solid + original + at, inside), inside)
            tl.store(opaque + own + at, tl.load(map_opaque + original + at, inside), inside)
            tl.store(rubble + own + at, 0, inside)
        for begin in range(part * block, voxels, programs * block):
            at = begin + tl.arange(0, block)
            tl.store(damage + battle * voxels + at, 0, at < voxels)


def restore_ground(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """Set the ground of some battles, in place, to that of their maps.

    Args:
        terrain: of B battles.
        which: `[B]` bool, the battles that begin anew.
        map_id: `[B]` int64 the map of each.
        maps: the maps.
    """
    ground = (terrain.solid, terrain.opaque, terrain.rubble, terrain.damage)
    form = restore_ground_triton if HAS_TRITON and terrain.solid.is_cuda else restore_ground_dense
    form(which, map_id, *ground, maps.solid, maps.opaque)


def restore_ground_dense(
    which: Tensor,
    map_id: Tensor,
    solid: Tensor,
    opaque: Tensor,
    rubble: Tensor,
    damage: Tensor,
    map_solid: Tensor,
    map_opaque: Tensor,
) -> None:
    """`restore_ground` by masks; the fields of `Terrain` and `Maps` by themselves."""
    for columns, original in ((solid, map_solid), (opaque, map_opaque)):
        columns.copy_(select(which, original[map_id], columns))
    for changes in (rubble, damage):
        changes.mul_(~which.view(-1, *[1] * (changes.dim() - 1)))


def launch(
    which: Tensor,
    map_id: Tensor,
    solid: Tensor,
    opaque: Tensor,
    rubble: Tensor,
    damage: Tensor,
    map_solid: Tensor,
    map_opaque: Tensor,
) -> None:
    """`restore_ground` by a program for each part of a battle."""
    ground, maps = (solid, opaque, rubble, damage), (map_solid, map_opaque)
    assert all(tensor.is_contiguous() for tensor in (*ground, *maps))
    kernel: Any = _restore[len(which), PROGRAMS]
    # A mask may be a column of somebody's table.
    chosen = (which.contiguous(), map_id.contiguous())
    # Triton runs on the current GPU, which that of the battles may not be.
    with torch.cuda.device(solid.device) if solid.is_cuda else contextlib.nullcontext():
        kernel(*chosen, *ground, *maps, solid[0].numel(), damage[0].numel(), PROGRAMS, BLOCK)


restore_ground_triton = torch.library.custom_op(
    "echelon::restore_ground", launch, mutates_args=("solid", "opaque", "rubble", "damage"), device_types="cuda"
)
"""`launch` as an operation of torch's, which graphs and fake tensors know."""
