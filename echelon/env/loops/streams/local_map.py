"""The loop of the stream `local_map`; see `observation/streams/local_map.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from echelon.env.loops.sensing import within
from echelon.env.loops.stream_arrays import Streams
from echelon.runtime import geometry
from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim.loops.records import Columns, Hull, Mech, Rules
from echelon.sim.loops.terrain import height_bits

out_of_frame = device_function(geometry.out_of_frame)


class Surroundings(NamedTuple):
    """The cells of a local map, K of them, row by row; the last two fields are scratch memory."""

    ahead: Any
    """[K] float32 vox from the mech."""
    left: Any
    columns: Any
    """[K] int32, the column of the ground in each cell, or the nearest one: its place, then its bits."""
    outside: Any
    """[K] int32: all bits set where a cell is outside of the map."""


def surroundings(side: int) -> Surroundings:
    """For a local map of so many cells a side."""
    offset = np.arange(side, dtype=np.float32) - side // 2
    room = np.zeros((2, side * side), np.int32)
    return Surroundings(np.repeat(offset, side), np.tile(offset, side), room[0], room[1])


@device_function
def find_blocked(mech: Mech, hull: Hull, columns: Columns, cells: Any, around: Any, rules: Rules) -> None:
    """Fill the map of one living mech, `cells [11 * 11]`, on the solid `columns [Y * X]`.

    First which columns are there, then their bits, then what they say; the first and the last by vector instructions.
    """
    row, top_x, top_y = rules.size[0], np.float32(rules.size[0] - 1), np.float32(rules.size[1] - 1)
    at_x, at_y, cos, sin = mech.pos[0], mech.pos[1], mech.facing[0], mech.facing[1]
    level, raised = height_bits(mech.pos[2], hull), height_bits(mech.pos[2] + rules.step_up_vox, hull)
    for k in range(around.ahead.shape[0]):
        ahead, left = around.ahead[k], around.left[k]
        to_x, to_y = out_of_frame(ahead, left, cos, sin)
        x, y = np.floor(at_x + to_x), np.floor(at_y + to_y)
        inside_x, inside_y = within(x, ZERO, top_x), within(y, ZERO, top_y)
        around.columns[k] = np.int32(inside_y) * row + np.int32(inside_x)
        around.outside[k] = -np.int32((x != inside_x) | (y != inside_y))
    for k in range(cells.shape[0]):
        around.columns[k] = columns[np.uint32(around.columns[k])] | around.outside[k]
    for k in range(cells.shape[0]):
        bits = around.columns[k]
        cells[k] = ONE if ((bits & level) != 0) & ((bits & raised) != 0) else ZERO


@device_function
def show(n: int, sources: Any, streams: Streams) -> None:
    """Fill the map around one mech, with 0 if it is dead."""
    scratch, tables, mech = sources.scratch, sources.tables, sources.scratch.records.mechs[n]
    cells = streams.local_map[n]
    if mech.hp > ZERO:
        find_blocked(mech, tables.hulls[n], sources.columns, cells, scratch.around, tables.rules[0])
    else:
        for cell in range(cells.shape[0]):
            cells[cell] = ZERO
