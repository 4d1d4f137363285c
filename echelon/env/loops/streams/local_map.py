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
    """The K cells of a local map, row by row; the last two fields are scratch memory."""

    ahead: Any
    """[K] float32 vox from the mech."""
    left: Any
    columns: Any
    """[K] int32, the terrain column at each cell, clamped to the map: first its index, then its bits."""
    outside: Any
    """[K] int32: all bits set if a cell is outside the map."""


def surroundings(side: int) -> Surroundings:
    """Return `Surroundings` for a local map with this number of cells per side."""
    offset = np.arange(side, dtype=np.float32) - side // 2
    room = np.zeros((2, side * side), np.int32)
    return Surroundings(np.repeat(offset, side), np.tile(offset, side), room[0], room[1])


@device_function
def find_blocked(mech: Mech, hull: Hull, columns: Columns, cells: Any, around: Any, rules: Rules) -> None:
    """Fill the map of one living mech, `cells [11 * 11]`, from the solid `columns [Y * X]`.

    Three loops: indices of columns, their bits, and the result. The compiler vectorizes the first and the last.
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
    """Fill the map around one mech; 0 if the mech is dead."""
    scratch, tables, mech = sources.scratch, sources.tables, sources.scratch.records.mechs[n]
    cells = streams.local_map[n]
    if mech.hp > ZERO:
        find_blocked(mech, tables.hulls[n], sources.columns, cells, scratch.around, tables.rules[0])
    else:
        for cell in range(cells.shape[0]):
            cells[cell] = ZERO
