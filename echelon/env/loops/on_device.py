"""A decision of all battles in loops on a GPU, one warp per battle."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from echelon.env.blocks import Blocks, no_grad_outside_inference_mode
from echelon.env.loops.decision import BattleArrays, MapArrays, play_one
from echelon.env.loops.play import Loops
from echelon.env.loops.sensing import MechArrays, Ranking, Sights
from echelon.env.loops.stream_arrays import Streams
from echelon.env.loops.streams.local_map import Surroundings
from echelon.env.outcome import final_statistics
from echelon.runtime.device_loops import DeviceRecords, empty_device_records, launch, to_device
from echelon.runtime.jit import device_function
from echelon.sim.loops import lanes
from echelon.sim.loops.movement import Boxes
from echelon.sim.loops.packing import FIELDS, PARTS, Parts, Records, fields_of, row_picker, shapes_of
from echelon.sim.loops.records import Scratch
from echelon.sim.loops.segments import Line
from echelon.sim.model import SimModel
from echelon.state import State

lanes.barrier = cuda.syncthreads
BLOCKS = 8
"""Blocks per SM: as many one-warp blocks as its 65,536 registers allow at up to 255 registers per thread."""
OF_LANES = {
    "boxes": ("near",),
    "ranking": Ranking._fields,
    "line": ("columns", "bits"),
    "around": ("columns", "outside"),
}
"""Arrays of `Scratch` that every lane has for itself, by field of `Scratch`."""
CONSTANTS = {"line": ("counts",), "around": ("ahead", "left")}
"""Arrays that are never written to, so all blocks share them."""
one_set, one_by_mech, one_sights, one_ranking = (row_picker(kind) for kind in (Records, MechArrays, Sights, Ranking))


@device_function
def scratch_of(b: int, row: int, scratch: Any) -> Scratch:
    """Return the scratch memory of block b; per-lane arrays come from `row`, an index over all lanes."""
    boxes, line, around = scratch.boxes, scratch.line, scratch.around
    places = boxes.x[b], boxes.y[b], boxes.z[b], boxes.reach_x[b], boxes.reach_y[b], boxes.reach_z[b]
    return Scratch(
        one_set(scratch.records, b),
        scratch.orders[b],
        scratch.pairs[b],
        scratch.lines[b],
        scratch.active_clouds[b],
        scratch.emitters[b],
        Boxes(*places, boxes.near[row], boxes.yaw[b], boxes.facing_x[b], boxes.facing_y[b], boxes.neighbours[b]),
        scratch.pulls[b],
        scratch.impacts[b],
        scratch.viewers[b],
        one_by_mech(scratch.by_mech, b),
        one_sights(scratch.sights, b),
        one_ranking(scratch.ranking, row),
        Line(line.counts, line.columns[row], line.bits[row]),
        Surroundings(around.ahead, around.left, around.columns[row], around.outside[row]),
    )


def decision_kernel(
    plays: int,
    actions: Any,
    focus_slots: Any,
    before: Any,
    after: Any,
    rest: Any,
    maps: Any,
    tables: Any,
    views: Any,
    scratch: Any,
    shown: Any,
) -> None:
    """Run `decision_loop` of all battles in blocks of `lanes.LANES` threads. Each block plays one battle after another,
    in its own part of `scratch [blocks, ...]`."""
    block, lane = cuda.blockIdx.x, cuda.threadIdx.x
    for b in range(block, len(actions), cuda.gridDim.x):  # type: ignore[call-overload]
        of_block = scratch_of(block, block * cuda.blockDim.x + lane, scratch)  # type: ignore[operator]
        play_one(b, plays, actions, focus_slots, before, after, rest, maps, tables, views, of_block, shown, None, lane)
        lanes.wait(lane)


def processors(device: torch.device) -> int:
    """Return the number of SMs of a GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count


class DeviceLoops(Loops):
    """`Loops` on a GPU. They do not support an observer: recorders run the same battles in the dense form."""

    judges, statistics = False, staticmethod(final_statistics)  # type: ignore[assignment]

    def __init__(self, sim_model: SimModel, blocks: Blocks, device: torch.device) -> None:
        super().__init__(sim_model, blocks)
        self.device = device
        self.tables, self.views = to_device(self.tables, device), to_device(self.views, device)
        self.scratch: dict[int, Scratch] = {}
        """Scratch memory by the number of blocks."""
        self.number = next(NUMBERS)
        INSTANCES[self.number] = self

    def __reduce__(self) -> tuple[type[DeviceLoops], tuple[Any, ...]]:
        """Pickle the arguments; the copy gets its own number."""
        return DeviceLoops, (self.sim_model, self.blocks, self.device)

    def _reused(self, kind: str, batch: int, build: Callable[[], Any]) -> Any:
        return build()

    def _fields(self, state: State) -> Parts:
        return fields_of(state)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        kind = dtype if isinstance(dtype, torch.dtype) else torch.from_numpy(np.empty(0, dtype)).dtype
        with no_grad_outside_inference_mode():
            return torch.empty(shape, dtype=kind, device=self.device)

    def _log(self, state: State, rows: int) -> Any:
        return None

    def _loop(self, plays: bool, arguments: tuple[Any, ...], streams: Any, *others: Any) -> None:
        actions, focus_slots, before, after, ground, maps, *_ = arguments
        read = [actions, focus_slots, *itertools.chain(*before), *maps]
        run_loops(self.number, plays, read, [*itertools.chain(*after), *ground, *streams])

    def launch(self, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
        """Run the kernel on the tensors of `run_loops`."""
        reads, writes = iter(read), iter(written)
        actions, focus_slots = next(reads), next(reads)
        before, after = (
            tuple(tuple(itertools.islice(tensors, len(FIELDS[part]))) for part in PARTS) for tensors in (reads, writes)
        )
        maps, ground, streams = MapArrays(*reads), BattleArrays(*itertools.islice(writes, GROUND)), Streams(*writes)
        blocks = min(len(actions), BLOCKS * processors(self.device))
        if blocks not in self.scratch:
            self.scratch[blocks] = self._scratches(blocks, before)
        constants = self.tables, self.views, self.scratch[blocks]
        arguments = actions, focus_slots, before, after, ground, maps, *constants, streams
        launch(decision_kernel, blocks, lanes.LANES, self.device, int(plays), *arguments)

    def _scratches(self, blocks: int, before: Parts) -> Scratch:
        """Return scratch memory for this number of blocks."""

        def empty(kind: np.dtype, shape: tuple[int, ...]) -> DeviceRecords:
            return empty_device_records(kind, (blocks, *shape), self.device)

        records = Records(*(empty(*part) for part in zip(PARTS.values(), shapes_of(before), strict=True)))
        others = {name: empty(*part) for name, part in self._scratch_records().items()}
        arrays = {name: self._of_blocks(name, part, blocks) for name, part in self._scratch_arrays().items()}
        return Scratch(records, **others, **arrays)

    def _of_blocks(self, name: str, part: Any, blocks: int) -> Any:
        """Repeat an array for one battle, or a named tuple of arrays, for all blocks or for all of their lanes."""
        if isinstance(part, np.ndarray):
            return torch.from_numpy(part).to(self.device).repeat(blocks, *[1] * part.ndim)
        tensors = {}
        for field, values in part._asdict().items():
            tensors[field] = torch.from_numpy(values).to(self.device)
            if field not in CONSTANTS.get(name, ()):
                rows = blocks * lanes.LANES if field in OF_LANES.get(name, ()) else blocks
                tensors[field] = tensors[field].repeat(rows, *[1] * values.ndim)
        return type(part)(**tensors)


NUMBERS = itertools.count()
INSTANCES: weakref.WeakValueDictionary[int, DeviceLoops] = weakref.WeakValueDictionary()
"""`DeviceLoops` by the number that represents it in a traced graph."""
GROUND = len(BattleArrays._fields)


@torch.library.custom_op("echelon::device_loops", mutates_args=("written",))
def run_loops(number: int, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
    """Play a decision as one operator, so that `torch.compile` can trace an environment with GPU loops.

    Args:
        number: number of the `DeviceLoops`.
        plays: as in `decision_loop`.
        read: actions, contact slots, fields of the state before, and fields of the maps.
        written: fields of the state after, `BattleArrays` and `Streams`.
    """
    INSTANCES[number].launch(plays, read, written)


@run_loops.register_fake
def _(number: int, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
    """Return nothing, like the operator."""
