"""CUDA graphs without a GPU: check that a function can be captured, and record and replay graphs.

A `Tape` records each torch operation with the memory it reads and writes and its scalar arguments, as a CUDA graph
does. A replay repeats the operations without calling the function."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from host_reads import HostReads
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from echelon.runtime import cuda_graphs, device, exact, fallback, jit
from echelon.runtime.compile import PROGRESS


class Region(NamedTuple):
    """A tensor in a graph: a part of memory."""

    storage: int
    """Number of the storage: below 0 for memory allocated inside the graph, in order, else memory from outside."""
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class Entry(NamedTuple):
    """An operation."""

    name: str
    function: Callable[..., Any]
    given: Any
    """Arguments and keywords; tensors as `Region`."""
    made: list[Region]


class Tape(TorchDispatchMode):
    """Record all operations while it is active.

    Args:
        undo: restore all memory afterwards, because a capture runs nothing.
    """

    def __init__(self, undo: bool = False) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.reads: list[str] = []
        """Operations that wait for the device."""
        self.outside: dict[int, torch.UntypedStorage] = {}
        """Memory from outside, keyed by name."""
        self.own: dict[int, int] = {}
        """Number of each storage allocated here."""
        self.makers: list[str] = []
        """The operation that allocated each storage."""
        self.alive: list[Tensor] = []
        self.undone: dict[int, Tensor] | None = {} if undo else None
        """Content of memory from outside before it was written."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name
        if name.startswith("profiler::"):
            return func(*args, **kwargs)
        by_mask = name in ("aten::index", "aten::index_put", "aten::index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in HostReads.SYNCS or by_mask:
            self.reads.append(name)
        given = tree_map(lambda leaf: self._region(leaf) if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        if self.undone is not None:
            self._save_what_is_written(func, args, kwargs)
        found = func(*args, **kwargs)
        made = []
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._allocate(leaf, name)
                made.append(self._region(leaf))
        self.entries.append(Entry(str(func), func, given, made))
        return found

    def _allocate(self, tensor: Tensor, name: str) -> None:
        key = cuda_graphs.storage_of(tensor)
        if key not in self.own and key not in self.outside:
            self.own[key] = -1 - len(self.own)
            self.makers.append(name)
            self.alive.append(tensor)

    def _region(self, tensor: Tensor) -> Region:
        key = cuda_graphs.storage_of(tensor)
        if key not in self.own:
            self.outside[key] = tensor.untyped_storage()
        shape = tuple(tensor.shape), tuple(tensor.stride())
        return Region(self.own.get(key, key), tensor.dtype, *shape, tensor.storage_offset())

    def _save_what_is_written(self, func: Any, args: Any, kwargs: Any) -> None:
        assert self.undone is not None
        for number, argument in enumerate(func._schema.arguments):
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for leaf in tree_leaves(value):
                key = cuda_graphs.storage_of(leaf)
                if key in self.outside and key not in self.undone:
                    self.undone[key] = bytes_of(self.outside[key]).clone()

    def undo(self) -> None:
        """Restore the content of memory from outside."""
        for key, before in (self.undone or {}).items():
            bytes_of(self.outside[key]).copy_(before)

    def survivors(self) -> list[str]:
        """Return the operations whose memory is still referenced after the function has returned."""
        held = [StorageWeakRef(tensor.untyped_storage()) for tensor in self.alive]
        self.alive.clear()
        gc.collect()
        return [maker for maker, storage in zip(self.makers, held, strict=True) if not storage.expired()]

    def replay(self) -> None:
        """Run all operations again, on the same outside memory, with new memory for allocations."""
        own: dict[int, torch.UntypedStorage] = {}

        def tensor_at(place: Any) -> Any:
            if not isinstance(place, Region):
                return place
            storage = own[place.storage] if place.storage < 0 else self.outside[place.storage]
            return torch.empty(0, dtype=place.dtype).set_(storage, place.offset, place.size, place.stride)

        with torch.inference_mode(False), torch.no_grad():
            for entry in self.entries:
                is_place = lambda leaf: isinstance(leaf, Region)  # noqa: E731
                args, kwargs = tree_map(tensor_at, entry.given, is_leaf=is_place)
                found = [leaf for leaf in tree_leaves(entry.function(*args, **kwargs)) if isinstance(leaf, Tensor)]
                for place, leaf in zip(entry.made, found, strict=True):
                    if place.storage < 0:
                        own.setdefault(place.storage, leaf.untyped_storage())


def bytes_of(storage: torch.UntypedStorage) -> Tensor:
    """Return a whole storage as `[n]` uint8."""
    with torch.inference_mode(False):
        return torch.empty(0, dtype=torch.uint8).set_(storage)


def recorded(function: Callable[[], None]) -> Tape:
    """Return the tape of one call."""
    tape = Tape()
    with tape:
        function()
    return tape


def faults(function: Callable[[], None]) -> list[str]:
    """Return the reasons why a function cannot be captured as a graph; empty if it can.

    Two calls must read and write the same outside memory, use the same scalar arguments, leave no allocated memory
    behind, and read nothing on the host.
    """
    gc.collect()
    found: list[str] = []
    first = recorded(function)
    found += [f"{maker} leaves memory behind" for maker in first.survivors()]
    second = recorded(function)
    found += [f"{name} waits for the device" for name in {*first.reads, *second.reads}]
    if len(first.entries) != len(second.entries):
        found.append(f"{len(first.entries)} operations, then {len(second.entries)}")
    for number, (one, other) in enumerate(zip(first.entries, second.entries, strict=False)):
        if (one.name, repr(one.given)) != (other.name, repr(other.given)):
            found.append(f"operation {number}: {one.name}{one.given}, then {other.name}{other.given}"[:600])
            break
    return found


class SimulatedGraph:
    """Replaces `torch.cuda.CUDAGraph`."""

    captures = 0
    replays = 0
    tape: Tape

    def replay(self) -> None:
        """Replay, as a GPU does."""
        type(self).replays += 1
        self.tape.replay()

    def reset(self) -> None:
        """Discard the captured graph."""


@contextlib.contextmanager
def capture(graph: SimulatedGraph, pool: object = None) -> Iterator[None]:
    """Replaces `torch.cuda.graph`: record all operations, then undo them.

    Like torch's, it restores the state if the capture fails.

    Raises:
        RuntimeError: an operation waits for the device, or the function raised an error.
    """
    CARD.stream, before = Stream.__new__(Stream), CARD.stream  # the stream of torch, not one made for a warm-up
    CARD.open_pools.add(pool)
    CARD.generator.captures = True
    random, tape = torch.get_rng_state(), Tape(undo=True)
    try:
        with tape:
            yield
    except BaseException:
        raise RuntimeError("operation failed due to a previous error during capture") from None
    finally:
        tape.undo()
        torch.set_rng_state(random)
    if tape.reads:
        raise RuntimeError(f"operation not permitted when stream is capturing: {tape.reads[0]}\nand more")
    CARD.stream, CARD.generator.captures = before, False
    CARD.open_pools.remove(pool)
    assert tape.survivors() == []
    graph.tape = tape
    SimulatedGraph.captures += 1


class Stream:
    """Replaces `torch.cuda.Stream`."""

    device = torch.device("cuda", 0)
    made = 0

    def __init__(self, device: object = None) -> None:
        type(self).made += 1

    def wait_stream(self, other: object) -> None:
        """Do nothing: operations run in order."""


class Generator:
    """Replaces a generator of torch 2.11, which stays in capture mode after a failed capture."""

    def __init__(self) -> None:
        self.captures = False

    def clone_state(self) -> Generator:
        """Return a copy with the same seed and offset that is not in capture mode."""
        return Generator()

    def graphsafe_set_state(self, other: Generator) -> None:
        """Use the state of the other generator."""
        self.captures = other.captures


class Card:
    """The state that torch keeps of a GPU."""

    def __init__(self) -> None:
        self.stream, self.generator = Stream(), Generator()
        self.open_pools: set[object] = set()

    def set_stream(self, stream: Stream) -> None:
        """Set the current stream."""
        self.stream = stream

    def close_pool(self, device: int, pool: object) -> None:
        """Stop allocating in a pool."""
        if pool not in self.open_pools:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.open_pools.remove(pool)

    @property
    def is_clean(self) -> bool:
        """Return whether captures have left no state behind."""
        return not self.open_pools and not self.generator.captures


CARD = Card()


def simulate(monkeypatch: Any) -> type[SimulatedGraph]:
    """Let a CPU capture and replay graphs; return the class that counts them."""
    SimulatedGraph.captures = SimulatedGraph.replays = 0
    CARD.__init__()  # type: ignore[misc]
    Stream.made = 0
    monkeypatch.setattr(cuda_graphs, "has_graphs", lambda device: True)
    monkeypatch.setattr(cuda_graphs, "side_streams", {})
    for name, new in {
        "CUDAGraph": SimulatedGraph,
        "graph": capture,
        "graph_pool_handle": lambda: (0, 1),
        "Stream": Stream,
        "current_stream": lambda device=None: CARD.stream,
        "set_stream": CARD.set_stream,
        "default_generators": [CARD.generator],
        "stream": lambda stream: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, new)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", CARD.close_pool, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda device, pool: None, raising=False)
    monkeypatch.setattr(fallback, "REASONS", [])
    return SimulatedGraph


def dense_forms(monkeypatch: Any) -> None:
    """Let a CPU run the code of a GPU: no loops, and no packing of rows."""
    for module, name in ((exact, "HAS_NUMBA"), (jit, "HAS_LOOPS")):
        monkeypatch.setattr(module, name, False)


def trace_only(monkeypatch: Any) -> list[str]:
    """Let `torch.compile` trace whole graphs and run them eagerly. Return a list that receives the name of each
    compiled function, once for each graph."""
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, inputs, **_: graph.forward)
    monkeypatch.setattr(device, "compiling_lacks", lambda device: [])
    monkeypatch.setattr(PROGRESS, "expected", [])
    monkeypatch.setattr(PROGRESS, "compiled", [])
    torch._dynamo.reset()
    return PROGRESS.compiled
