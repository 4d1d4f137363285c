"""The terrain around a mech, seen from above at the height of its hull."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.features import Feature
from echelon.env.observation.stream import Axis, Stream, StreamInputs
from echelon.runtime.compile import axes, materialize
from echelon.runtime.geometry import heading
from echelon.sim.terrain import columns_at, height_bits, stepped_up

LOCAL_MAP_CELLS = 11
"""Side length of the map around a mech, in cells of one voxel."""


def local_map(inputs: StreamInputs) -> Tensor:
    """Return the map around each mech, `[B, N, 11, 11]`: 1 in cells where the hull cannot walk at its height, and
    outside the map.

    The row index grows in the direction ahead of the mech, the column index to its left. Cells that the mech can step
    onto, such as a wreck, are 0.
    """
    state, sim_model, side = inputs.state, inputs.sim_model, LOCAL_MAP_CELLS
    mechs, world = state.mechs, sim_model.config.world
    offsets = torch.arange(side, device=mechs.yaw.device, dtype=mechs.pos.dtype) - side // 2
    # Store the values that many cells share; otherwise compiled code would recompute them for each cell.
    ahead, left = materialize(offsets.repeat_interleave(side)), materialize(offsets.repeat(side))
    own_x, own_y, _ = (u[..., None] for u in mechs.pos.unbind(-1))
    c, s = (u[..., None] for u in axes(heading(mechs.yaw)))
    level, raised = (
        materialize(height_bits(pos, sim_model.roster.half_size))[..., None]
        for pos in (mechs.pos, stepped_up(mechs.pos, sim_model))
    )
    x = (own_x + (ahead * c - left * s)).floor().int()  # [B, N, 121]
    y = (own_y + (ahead * s + left * c)).floor().int()
    outside = (x < 0) | (x >= world.size_x) | (y < 0) | (y >= world.size_y)
    solid = columns_at(state.terrain.solid, x, y)
    blocked = outside | (((solid & level) != 0) & ((solid & raised) != 0))
    return (blocked & mechs.alive[..., None]).float().unflatten(-1, (side, side))


STREAM = Stream(
    name="local_map",
    features=(Feature("blocked", LOCAL_MAP_CELLS**2, 0.0, 1.0, "flag", "the hull cannot walk or step up there"),),
    axes=tuple(Axis(name, lambda config: LOCAL_MAP_CELLS) for name in ("cell ahead", "cell left")),
    is_grid=True,
    dense=local_map,
)
