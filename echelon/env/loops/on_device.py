"""A decision of all battles in loops on a GPU, a warp a battle."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from echelon.env.blocks import Blocks, ordinary_tensors
from echelon.env.loops.cockpit import Surroundings
from echelon.env.loops.decision import BattleArrays, MapArrays, Scratch, Streams, play_one
from echelon.env.loops.play import Loops
from echelon.env.outcome import final_statistics
from echelon.runtime.device_loops import empty_device_records, launch, to_device
from echelon.runtime.jit import called
from echelon.sim.loops import lanes
from echelon.sim.loops.packing import FIELDS, PARTS, Parts, Records, picking, shapes_of
from echelon.sim.loops.sight import Line
from echelon.sim.model import SimModel
from echelon.state import State

lanes.barrier = cuda.syncthreads
OF_LANES = {"line": ("columns", "bits"), "around": ("columns", "outside"), "ranking": ()}
"""The parts of `Scratch` that every lane has its own of, and which of their arrays: the others are
constants."""
one_set = picking(Records)


@called
def scratch_of(b: int, own: int, scratch: Any) -> Scratch:
    """The scratch memory of battle b, and for what one mech at a time is worked out, that of one lane, `own`."""
    line, around = scratch.line, scratch.around
    return Scratch(
        one_set(scratch.records, b),
        scratch.orders[b],
        scratch.pairs[b],
        scratch.pulls[b],
        scratch.impacts[b],
        scratch.viewers[b],
        scratch.sights[b],
        Line(line.counts, line.columns[own], line.bits[own]),
        Surroundings(around.ahead, around.left, around.columns[own], around.outside[own]),
        scratch.ranking[own],
    )


def decision_kernel(
    plays: int,
    actions: Any,
    before: Any,
    after: Any,
    own: Any,
    maps: Any,
    tables: Any,
    views: Any,
    scratch: Any,
    shown: Any,
) -> None:
    """`decision_loop` of all battles, `scratch [B, ...]`, a block of `lanes.LANES` threads each."""
    b, lane = cuda.blockIdx.x, cuda.threadIdx.x
    own_scratch = scratch_of(b, b * cuda.blockDim.x + lane, scratch)
    play_one(b, plays, actions, before, after, own, maps, tables, views, own_scratch, shown, None, lane)


class DeviceLoops(Loops):
    """`Loops` on a GPU. Nobody watches them: a recorder is told of the same battles by the dense form."""

    statistics = staticmethod(final_statistics)  # type: ignore[assignment]

    def __init__(self, game: SimModel, blocks: Blocks, device: torch.device) -> None:
        super().__init__(game, blocks)
        self.device = device
        self.tables, self.views = to_device(self.tables, device), to_device(self.views, device)
        self.scratch: dict[int, tuple[Tensor, Scratch]] = {}
        """By the number of battles the memory of their records, and all scratch memory."""
        self.number = next(NUMBERS)
        INSTANCES[self.number] = self

    def __reduce__(self) -> tuple[type[DeviceLoops], tuple[Any, ...]]:
        """For copies and other processes, each with memory and a number of its own."""
        return DeviceLoops, (self.game, self.blocks, self.device)

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Tensor:
        kind = dtype if isinstance(dtype, torch.dtype) else torch.from_numpy(np.empty(0, dtype)).dtype
        with ordinary_tensors():
            return torch.empty(shape, dtype=kind, device=self.device)

    def _log(self, state: State, rows: int) -> Any:
        return None

    def _loop(self, plays: bool, arguments: tuple[Any, ...], streams: Streams, spans: list[slice], log: Any) -> None:
        actions, before, after, ground, maps, *_ = arguments
        read = [actions, *itertools.chain(*before), *maps]
        run_loops(self.number, plays, read, [*itertools.chain(*after), *ground, *streams])

    def launch(self, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
        """Run the kernel on the tensors of `run_loops`."""
        reads, writes = iter(read), iter(written)
        actions = next(reads)
        before, after = (
            tuple(tuple(itertools.islice(tensors, len(FIELDS[part]))) for part in PARTS) for tensors in (reads, writes)
        )
        maps, ground, streams = MapArrays(*reads), BattleArrays(*itertools.islice(writes, GROUND)), Streams(*writes)
        batch = len(actions)
        if batch not in self.scratch:
            self.scratch[batch] = self._scratches(batch, before)
        memory, scratch = self.scratch[batch]
        memory.zero_()
        arguments = actions, before, after, ground, maps, self.tables, self.views, scratch, streams
        launch(decision_kernel, batch, lanes.LANES, self.device, int(plays), *arguments)

    def _scratches(self, batch: int, before: Parts) -> tuple[Tensor, Scratch]:
        """Scratch memory for so many battles, and that of the records, which a decision begins with zeros in."""
        shapes = [(batch, *shape) for shape in shapes_of(before)]
        memory, parts = empty_device_records(list(zip(PARTS.values(), shapes, strict=True)), self.device)
        whole = torch.empty((batch, 0), dtype=torch.int64, device=self.device)
        num_lanes, kinds = batch * lanes.LANES, {}
        for name, (kind, shape) in self._scratch_records().items():
            kinds[name] = kind, (num_lanes if name in OF_LANES else batch, *shape)
        _, others = empty_device_records(list(kinds.values()), self.device)
        arrays = {}
        for name, part in self._scratch_arrays().items():
            tensors = {field: torch.from_numpy(values).to(self.device) for field, values in part._asdict().items()}
            tensors.update({field: tensors[field].repeat(num_lanes, 1) for field in OF_LANES[name]})
            arrays[name] = type(part)(**tensors)
        records = Records(**dict(zip(PARTS, parts, strict=True)), whole=whole)
        return memory, Scratch(records, **dict(zip(kinds, others, strict=True)), **arrays)


NUMBERS = itertools.count()
INSTANCES: weakref.WeakValueDictionary[int, DeviceLoops] = weakref.WeakValueDictionary()
"""By the number that stands for each in a traced graph."""
GROUND = len(BattleArrays._fields)


@torch.library.custom_op("echelon::device_loops", mutates_args=("written",))
def run_loops(number: int, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
    """A decision as one operation, so that a user's `torch.compile` traces an environment with loops of a GPU.

    Args:
        number: of the `DeviceLoops`.
        plays: as in `decision_loop`.
        read: actions, the fields of the state before, and those of maps.
        written: the fields of the state behind, `BattleArrays` and `Streams`.
    """
    INSTANCES[number].launch(plays, read, written)


@run_loops.register_fake
def _(number: int, plays: bool, read: list[Tensor], written: list[Tensor]) -> None:
    """Nothing is returned."""
