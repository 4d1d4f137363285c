"""CUDA graphs: work on tensors that stay where they are, captured once and replayed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

WARM_UPS = 2
"""Calls that run before a capture: they compile, allocate, and let libraries set themselves up."""
MOST_GRAPHS = 8
"""Graphs kept of one function; the one replayed longest ago is dropped first."""
side_streams: dict[torch.device, torch.cuda.Stream] = {}
"""Of each device the stream on which everything is warmed up: freed memory is used again by its own stream alone."""
logger = logging.getLogger(__name__)


class GraphedFunction:
    """A function that a CUDA graph replays: without work of the host between its kernels. Elsewhere it is called.

    A replay repeats the kernels of the captured call, on the same addresses and with the same Python numbers. So the
    function takes and returns nothing: it reads and writes tensors that stay where they are, and whatever else it
    depends on is in the key that it is called with; None where nobody knows. The first `WARM_UPS` calls of a key run
    it, the next one captures it. Where that fails, the function is called from then on, and a line is logged once.

    Args:
        function: the work. It must not read the host.
        device: where it runs.
        name: of the work, for the log.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, name: str) -> None:
        self.function, self.device, self.name = function, device, name
        self.graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self.calls: dict[Hashable, int] = {}
        """Calls of each key before its capture."""
        self.is_graphed = has_graphs(device)
        self.has_said = False
        self.pool: Any = None
        """Memory that all graphs of this function share: they never run side by side, and leave nothing there."""

    def __call__(self, key: Hashable) -> None:
        """Do the work."""
        if self.is_graphed and key is None:
            self._say("something in it does not tell what it depends on, as by `graph_key`")
        if not self.is_graphed or key is None:
            self.function()
            return
        if key not in self.graphs:
            self.calls[key] = self.calls.get(key, 0) + 1
            if self.calls[key] <= WARM_UPS:
                self._warm_up()
                return
            if not self._capture(key):
                self.function()
                return
        self.graphs.move_to_end(key)
        self.graphs[key].replay()

    def _say(self, why: str) -> None:
        """Log, once, why there is no graph."""
        if not self.has_said:
            self.has_said = True
            logger.warning("%s runs without a CUDA graph: %s", self.name, why)

    def forget(self) -> None:
        """Drop all graphs: what they read or write lies elsewhere now."""
        self.graphs.clear()
        self.calls.clear()

    def _warm_up(self) -> None:
        """Call the function on another stream, as `torch.cuda.graph` will."""
        if self.device not in side_streams:
            side_streams[self.device] = torch.cuda.Stream(self.device)
        here, side = torch.cuda.current_stream(self.device), side_streams[self.device]
        side.wait_stream(here)
        with torch.cuda.stream(side):
            self.function()
        here.wait_stream(side)

    def _capture(self, key: Hashable) -> bool:
        """Capture the function, which runs nothing yet; returns whether that succeeded."""
        graph = torch.cuda.CUDAGraph()
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self.function()
        except RuntimeError as problem:
            self.is_graphed = False
            self._say(f"it cannot be captured ({str(problem).strip().partition(chr(10))[0][:200]})")
            return False
        self.graphs[key] = graph
        while len(self.graphs) > MOST_GRAPHS:
            self.graphs.popitem(last=False)
        return True


def has_graphs(device: torch.device) -> bool:
    """Whether a device replays graphs."""
    return device.type == "cuda"


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same part of memory."""

    def place(tensor: Tensor) -> tuple[object, ...]:
        return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype

    return place(one) == place(other)


def storage_of(tensor: Tensor) -> int:
    """Names the memory of a tensor, while that lives."""
    return tensor.untyped_storage()._cdata
