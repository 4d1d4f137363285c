"""`rubble.lay_wrecks` as one kernel, whose programs leave at once where no wreck waits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.sim.gpu.ground import clamped, height_bits
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.model import SimModel
from echelon.sim.terrain import WIDEST_CELLS
from echelon.state import State


def lay_wrecks(state: State, luck: Tensor, priority: Tensor, game: SimModel) -> Tensor:
    """`[B, N]` bool, the mechs whose wreck lies on the map; the terrain of `state` is changed in place."""
    terrain, mechs, roster = state.terrain, state.mechs, game.roster
    columns = terrain.solid, terrain.opaque, terrain.rubble
    facts = mechs.pos, mechs.alive, mechs.wrecked, luck, priority, roster.half_size, roster.wreck_chance
    wrecked: Tensor = _lay_op(*columns, game.maps.hazard, state.map_id, *(fact.contiguous() for fact in facts))
    return wrecked


@operator("lay_wrecks", ("solid", "opaque", "rubble"))
def _lay_op(
    solid: Tensor,
    opaque: Tensor,
    rubble: Tensor,
    hazard: Tensor,
    map_id: Tensor,
    pos: Tensor,
    alive: Tensor,
    wrecked: Tensor,
    luck: Tensor,
    priority: Tensor,
    half_size: Tensor,
    wreck_chance: Tensor,
) -> Tensor:
    after = torch.empty_like(wrecked)
    battles, mechs = alive.shape
    launch(
        _lay,
        battles,
        solid.device,
        *(solid, opaque, rubble, hazard, map_id, pos, alive, wrecked, luck, priority, half_size, wreck_chance, after),
        **{"size_x": solid.shape[2], "size_y": solid.shape[1], "mechs": mechs, "widest": WIDEST_CELLS},
        lanes=triton.next_power_of_2(mechs),
        cells=triton.next_power_of_2(WIDEST_CELLS**2),
    )
    return after


@_lay_op.register_fake
def _(*facts: Tensor) -> Tensor:
    return torch.empty_like(facts[7])


@triton.jit
def _hull(pos, half_size, row, mech):  # type: ignore[no-untyped-def]
    """First and last cell along x and y of a hull, and the bits of a column that it fills."""
    x, y, z = tl.load(pos + row * 3), tl.load(pos + row * 3 + 1), tl.load(pos + row * 3 + 2)
    half_x, half_y = tl.load(half_size + mech * 3), tl.load(half_size + mech * 3 + 1)
    tall = height_bits(z, tl.load(half_size + mech * 3 + 2))
    first_x, last_x = tl.floor(x - half_x).to(tl.int32), tl.ceil(x + half_x).to(tl.int32) - 1
    first_y, last_y = tl.floor(y - half_y).to(tl.int32), tl.ceil(y + half_y).to(tl.int32) - 1
    return first_x, last_x, first_y, last_y, tall


@triton.jit
def _lay(  # type: ignore[no-untyped-def]
    solid,
    opaque,
    rubble,
    hazard,
    map_id,
    pos,
    alive,
    wrecked,
    luck,
    priority,
    half_size,
    wreck_chance,
    after,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    mechs: tl.constexpr,
    widest: tl.constexpr,
    lanes: tl.constexpr,
    cells: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle, mech = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there = mech < mechs
    rows = battle * mechs + mech
    lies = tl.load(wrecked + rows, there, 0) != 0
    waits = there & (tl.load(alive + rows, there, 1) == 0) & ~lies
    rank = tl.where(waits, tl.load(priority + rows, there, 0.0), -1.0)
    most = tl.max(rank, 0)
    who = tl.min(tl.where(rank == most, mech, lanes), 0)
    lays = most >= 0.0
    tl.store(after + rows, lies | ((mech == who) & (rank >= 0.0)), there)
    if lays:
        row = battle * mechs + who
        first_x, last_x, first_y, last_y, tall = _hull(pos, half_size, row, who)
        cell = tl.arange(0, cells)
        x, y = first_x + cell % widest, first_y + cell // widest
        in_box = (cell < widest * widest) & (x <= last_x) & (y <= last_y)
        x, y = clamped(tl.minimum(x, last_x), 0, size_x - 1), clamped(tl.minimum(y, last_y), 0, size_y - 1)
        ground = y * size_x + x
        at = battle * (size_x * size_y) + ground
        stands, hides, piled = (
            tl.load(solid + at, in_box, 0),
            tl.load(opaque + at, in_box, 0),
            tl.load(rubble + at, in_box, 0),
        )
        taken = stands | hides | piled
        taken |= tl.load(hazard + tl.load(map_id + battle) * (size_x * size_y) + ground, in_box, 0)
        for other in range(mechs):
            if tl.load(alive + battle * mechs + other) != 0:
                low_x, high_x, low_y, high_y, box = _hull(pos, half_size, battle * mechs + other, other)
                inside = (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
                taken |= tl.where(inside, box, 0)
        below = stands & ((tall & -tall) - 1)
        below |= below >> 1
        below |= below >> 2
        below |= below >> 4
        below |= below >> 8
        below |= below >> 16
        resting = below + 1
        bits = resting & ~taken & ~(resting & (piled << 1))
        tl.store(rubble + at, piled | bits, in_box)
        if tl.load(luck + row) < tl.load(wreck_chance + who):
            tl.store(solid + at, stands | bits, in_box)
            tl.store(opaque + at, hides | bits, in_box)
