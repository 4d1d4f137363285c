"""CUDA graphs: capture work on tensors with fixed addresses once, and replay it."""

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
"""Number of calls before a capture, in which functions compile, allocate and initialize libraries."""
MOST_GRAPHS = 8
"""Maximum number of graphs per function; the least recently replayed one is dropped first."""
VARIABLE = "ECHELON_CUDA_GRAPHS"
"""Environment variable; `off` disables CUDA graphs, regardless of settings."""
ABANDONED: list[Any] = []
"""Graphs whose capture failed. They stay alive, because torch's pinned-memory allocator may still query them."""
side_streams: dict[torch.device, torch.cuda.Stream] = {}
"""The stream for warm-up calls of each device. There is only one, because a stream reuses only its own freed memory."""
logger = logging.getLogger(__name__)


class GraphedFunction:
    """A function that is replayed as a CUDA graph on a GPU, without host work between kernels, and called normally on
    other devices.

    A replay repeats the kernels of the captured call, with the same addresses and Python numbers. Therefore the
    function has no arguments and returns nothing: it reads and writes tensors with fixed addresses. Calls take a key
    that contains everything else the function depends on, or None if this is unknown. The first `WARM_UPS` calls with a
    key run the function, and the next call captures a CUDA graph. If capturing fails, all later calls run the function,
    and one line is logged.

    Args:
        function: the work, which must not synchronize with the host.
        device: device of the work.
        name: name of the function in messages.
    """

    instances: ClassVar[weakref.WeakSet[GraphedFunction]] = weakref.WeakSet()

    def __init__(self, function: Callable[[], None], device: torch.device, name: str) -> None:
        self.function, self.device, self.name = function, device, name
        self.graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self.calls: dict[Hashable, int] = {}
        """Number of calls of each key before its capture."""
        self.is_graphed = has_graphs(device)
        self.has_warned = False
        self.pool: Any = None
        """Memory pool shared by all graphs of this function. They never run in parallel, and keep no data there."""
        self.instances.add(self)

    def __call__(self, key: Hashable) -> None:
        if self.is_graphed and key is None:
            self._warn("a component has no `graph_key` that contains what it depends on")
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

    def _warn(self, why: str) -> None:
        """Log once why no CUDA graph is used."""
        if not self.has_warned:
            self.has_warned = True
            logger.warning("%s runs without a CUDA graph: %s", self.name, why)

    def forget(self) -> None:
        """Drop all CUDA graphs, because tensors that the graphs use have new addresses."""
        self.graphs.clear()
        self.calls.clear()

    def _warm_up(self) -> None:
        """Call the function on a side stream, as `torch.cuda.graph` does for the capture."""
        if self.device not in side_streams:
            side_streams[self.device] = torch.cuda.Stream(self.device)
        current, side = torch.cuda.current_stream(self.device), side_streams[self.device]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            self.function()
        current.wait_stream(side)

    def _capture(self, key: Hashable) -> bool:
        """Capture the function without running it. Returns whether the capture succeeded."""
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        cause: BaseException | None = None
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                try:
                    self.function()
                except BaseException as error:
                    # Keep the original error, because the end of the capture reports only that some error occurred.
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
        """Clean up after a failed capture, because `torch.cuda.graph` does not.

        `torch.cuda.graph` leaves its stream current, its memory pool open, and the random generator in capture mode, in
        which no draw succeeds.
        """
        torch.cuda.set_stream(stream)
        graph.reset()
        ABANDONED.append(graph)
        device = stream.device.index
        # These calls raise RuntimeError if torch has already closed the memory pool.
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, self.pool)
            torch._C._cuda_releasePool(device, self.pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())
        # Forget captured graphs: those with random draws use the generator state of their capture, which was replaced.
        for instance in self.instances:
            instance.forget()
        self.is_graphed, self.pool = False, None


def has_graphs(device: torch.device) -> bool:
    """Return True if a device replays graphs: a GPU, unless `are_off`."""
    return device.type == "cuda" and not are_off()


def are_off() -> bool:
    """Return True if the environment variable `ECHELON_CUDA_GRAPHS` disables graphs."""
    return variable(VARIABLE, ("on", "off")) == "off"


def is_same(one: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same memory, offset, shape, strides and dtype."""

    def place(tensor: Tensor) -> tuple[object, ...]:
        return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype

    return place(one) == place(other)


def storage_of(tensor: Tensor) -> int:
    """Return a number that identifies the memory of a tensor while the memory exists."""
    return tensor.untyped_storage()._cdata
