"""A decision of all battles in loops on a GPU, a thread a battle."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from echelon.env.blocks import Blocks, ordinary_tensors
from echelon.env.loops.cockpit import Surroundings
from echelon.env.loops.decision import Scratch, Streams, play_one
from echelon.env.loops.perception import Crew, Ranking, Sights
from echelon.env.loops.play import Loops
from echelon.env.outcome import final_statistics
from echelon.runtime.device_loops import empty_device_records, launch, to_device
from echelon.runtime.jit import called
from echelon.sim.loops.movement import Boxes
from echelon.sim.loops.packing import PARTS, Parts, Records, picking, shapes_of
from echelon.sim.loops.sight import Line
from echelon.sim.model import SimModel
from echelon.state import State

one_set, one_line, one_around = picking(Records), picking(Line), picking(Surroundings)
one_boxes, one_crew, one_sights, one_ranking = (picking(kind) for kind in (Boxes, Crew, Sights, Ranking))


@called
def scratch_of(b: int, scratch: Any) -> Scratch:
    """The scratch memory of one thread."""
    return Scratch(
        one_set(scratch.records, b),
        scratch.orders[b],
        scratch.pairs[b],
        scratch.lines[b],
        one_boxes(scratch.boxes, b),
        scratch.pulls[b],
        scratch.impacts[b],
        scratch.viewers[b],
        one_crew(scratch.crew, b),
        one_sights(scratch.sights, b),
        one_ranking(scratch.ranking, b),
        one_line(scratch.line, b),
        one_around(scratch.around, b),
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
    """`decision_loop` of all battles, `scratch [B, ...]`, in as many threads or more."""
    b = cuda.grid(1)  # type: ignore[call-arg, var-annotated]
    if b < actions.shape[0]:
        own_scratch = scratch_of(b, scratch)
        play_one(b, plays, actions, before, after, own, maps, tables, views, own_scratch, shown, None)


class DeviceLoops(Loops):
    """`Loops` on a GPU. Nobody watches them: a recorder is told of the same battles by the dense form."""

    statistics = staticmethod(final_statistics)  # type: ignore[assignment]

    def __init__(self, game: SimModel, blocks: Blocks, device: torch.device) -> None:
        super().__init__(game, blocks)
        self.device = device
        self.tables, self.views = to_device(self.tables, device), to_device(self.views, device)
        self.scratch: dict[int, tuple[Tensor, Scratch]] = {}
        """By the number of battles the memory of their records, and all scratch memory."""

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Tensor:
        kind = dtype if isinstance(dtype, torch.dtype) else torch.from_numpy(np.empty(0, dtype)).dtype
        with ordinary_tensors():
            return torch.empty(shape, dtype=kind, device=self.device)

    def _log(self, state: State, rows: int) -> Any:
        return None

    def _loop(self, plays: bool, arguments: tuple[Any, ...], streams: Streams, spans: list[slice], log: Any) -> None:
        actions, before, *_ = arguments
        batch = len(actions)
        if batch not in self.scratch:
            self.scratch[batch] = self._scratches(batch, before)
        memory, scratch = self.scratch[batch]
        memory.zero_()
        launch(decision_kernel, batch, self.device, int(plays), *arguments, scratch, streams)

    def _scratches(self, batch: int, before: Parts) -> tuple[Tensor, Scratch]:
        """Scratch memory for so many threads, and that of the records, which a decision begins with zeros in."""
        shapes = [(batch, *shape) for shape in shapes_of(before)]
        memory, parts = empty_device_records(list(zip(PARTS.values(), shapes, strict=True)), self.device)
        kinds = {name: (kind, (batch, *shape)) for name, (kind, shape) in self._scratch_records().items()}
        _, others = empty_device_records(list(kinds.values()), self.device)

        def of_all(part: Any) -> Any:
            if isinstance(part, tuple):
                return type(part)(*map(of_all, part))
            return torch.from_numpy(part).to(self.device).repeat(batch, *[1] * part.ndim)

        arrays = {name: of_all(part) for name, part in self._scratch_arrays().items()}
        records = Records(*parts)
        return memory, Scratch(records, **dict(zip(kinds, others, strict=True)), **arrays)
