"""CUDA graphs: work on tensors that stay where they are, captured once and replayed."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import torch
from torch import Tensor

from echelon.runtime.fallback import cause_of, fall_back
from echelon.runtime.limits import variable

WARM_UPS = 2
"""Calls that run before a capture: they compile, allocate, and let libraries set themselves up."""
MOST_GRAPHS = 8
"""Graphs kept of one function; the one replayed longest ago is dropped first."""
VARIABLE = "ECHELON_CUDA_GRAPHS"
"""Environment variable: `off` for none, whatever settings say."""
ABANDONED: list[Any] = []
"""Graphs whose capture failed: torch's allocator of pinned memory may go on asking them whether they capture."""
side_streams: dict[torch.device, torch.cuda.Stream] = {}
"""Of each device the stream on which everything is warmed up: freed memory is used again by its own stream alone."""
logger = logging.getLogger(__name__)


class GraphedFunction:
    """A function that a CUDA graph replays: without work of the host between its kernels. Elsewhere it is called.

    A replay repeats the kernels of the captured call, on the same addresses and with the same Python numbers. So the
    function takes and returns nothing: it reads and writes tensors that stay where they are, and whatever else it
    depends on is in the key that it is called with; None where nobody knows. The first `WARM_UPS` calls of a key run
    it, the next one captures it. Where that fails, the function is called from then on, and a line tells why.

    Args:
        function: the work. It must not read the host.
    """

    instances: ClassVar[weakref.WeakSet[GraphedFunction]] = weakref.WeakSet()

    def __init__(self, function: Callable[[], None], device: torch.device, name: str) -> None:
        self.function, self.device, self.name = function, device, name
        self.graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self.calls: dict[Hashable, int] = {}
        """Calls of each key before its capture."""
        self.is_graphed = has_graphs(device)
        self.has_said = False
        self.pool: Any = None
        """Memory that all graphs of this function share: they never run side by side, and leave nothing there."""
        self.instances.add(self)

    def __call__(self, key: Hashable) -> None:
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
        current, side = torch.cuda.current_stream(self.device), side_streams[self.device]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            self.function()
        current.wait_stream(side)

    def _capture(self, key: Hashable) -> bool:
        """Capture the function, which runs nothing yet; returns whether that succeeded."""
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        cause: BaseException | None = None
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                try:
                    self.function()
                except BaseException as error:
                    # The end of the capture will only say that there was an error.
                    cause = error
                    raise
        except BaseException as error:
            cause = cause or error
            self._abandon(graph, current)
            if not isinstance(cause, Exception):
                raise cause from None
            fall_back(f"{self.name} runs without a CUDA graph: it cannot be captured ({cause_of(cause)})")
            return False
        self.graphs[key] = graph
        while len(self.graphs) > MOST_GRAPHS:
            self.graphs.popitem(last=False)
        return True

    def _abandon(self, graph: Any, stream: Any) -> None:
        """Leave nothing of a failed capture behind, where `torch.cuda.graph` does: the stream that it made the current
        one, the pool that it left open, and the generator that it left capturing, so that no draw succeeds."""
        torch.cuda.set_stream(stream)
        graph.reset()
        ABANDONED.append(graph)
        device = stream.device.index
        # Refused where torch has closed it.
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, self.pool)
            torch._C._cuda_releasePool(device, self.pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())
        # Graphs that draw do so from the state they were captured with, which is not the generator's any more.
        for instance in self.instances:
            instance.forget()
        self.is_graphed, self.pool = False, None


def has_graphs(device: torch.device) -> bool:
    """Whether a device replays graphs: a GPU does, unless `are_off`."""
    return device.type == "cuda" and not are_off()


def are_off() -> bool:
    """Whether the environment variable `ECHELON_CUDA_GRAPHS` turns all graphs off."""
    return variable(VARIABLE, ("on", "off")) == "off"


def is_same(one: Tensor, other: Tensor) -> bool:

    def place(tensor: Tensor) -> tuple[object, ...]:
        return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype

    return place(one) == place(other)


def storage_of(tensor: Tensor) -> int:
    """Names the memory of a tensor, while that lives."""
    return tensor.untyped_storage()._cdata
