"""Destroyed mechs become rubble. See `rubble.lay_wrecks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, called
from echelon.sim.loops.arithmetic import bits_between, cell_span, clamped


@called
def height_bits(z: Any, hull: Any) -> Any:
    """`terrain.height_bits` of one hull at a height."""
    first, last = cell_span(z, hull.half_size[2], 30)
    return bits_between(first, last)


@called
def living_bits(x: int, y: int, mechs: Any, hulls: Any) -> Any:
    """`rubble.living_bits` of one column."""
    bits = np.int32(0)
    for n in range(mechs.shape[0]):
        mech, half = mechs[n], hulls[n].half_size
        if mech.hp <= ZERO:
            continue
        if x < int(np.floor(mech.pos[0] - half[0])) or x > int(np.ceil(mech.pos[0] + half[0])) - 1:
            continue
        if y < int(np.floor(mech.pos[1] - half[1])) or y > int(np.ceil(mech.pos[1] + half[1])) - 1:
            continue
        bits |= height_bits(mech.pos[2], hulls[n])
    return bits


@called
def resting_bits(solid: Any, tall: Any) -> Any:
    """`rubble.resting_bits` of one column."""
    below = solid & ((tall & -tall) - 1)
    for shift in (1, 2, 4, 8, 16):
        below = below | (below >> shift)
    return np.int32(below + 1)


@called
def lay_one(n: int, stays_solid: Any, mechs: Any, hulls: Any, ground: Any) -> None:
    """Fill the ground under a destroyed mech."""
    mech, half = mechs[n], hulls[n].half_size
    solid, opaque, rubble = ground.solid, ground.opaque, ground.rubble
    tall = height_bits(mech.pos[2], hulls[n])
    top_y, top_x = solid.shape[0] - 1, solid.shape[1] - 1
    for row in range(int(np.floor(mech.pos[1] - half[1])), int(np.ceil(mech.pos[1] + half[1]))):
        for column in range(int(np.floor(mech.pos[0] - half[0])), int(np.ceil(mech.pos[0] + half[0]))):
            x, y = clamped(column, top_x), clamped(row, top_y)
            resting = resting_bits(solid[y, x], tall)
            filled = solid[y, x] | opaque[y, x] | rubble[y, x] | ground.hazard[y, x] | living_bits(x, y, mechs, hulls)
            bits = np.int32(resting & ~filled & ~(resting & (rubble[y, x] << 1)))
            rubble[y, x] |= bits
            if stays_solid:
                solid[y, x] |= bits
                opaque[y, x] |= bits


@called
def next_wreck(mechs: Any) -> Any:
    """`rubble.next_wreck`: the mech, -1 for none."""
    rank, best = -ONE, -1
    for n in range(mechs.shape[0]):
        if mechs[n].hp <= ZERO and not mechs[n].wrecked and mechs[n].priority > rank:
            rank = mechs[n].priority
            best = n
    return best
