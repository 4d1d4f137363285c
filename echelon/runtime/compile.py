"""How the simulation meets `torch.compile`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from echelon.runtime.device import can_compile

Function = TypeVar("Function", bound=Callable[..., Any])
logger = logging.getLogger(__name__)
"""Its lines are of level INFO; programs print them."""


class Progress:
    """Logs every compilation of the functions that were announced by `expect` and are called within `calling`."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        """Names of the functions that may be compiled in this process, each once."""
        self.compiled: list[str] = []
        """Those that were, once for every graph."""
        self.seconds = 0.0
        """Spent on them."""
        self._began = 0.0
        self._thread = threading.local()

    def expect(self, name: str) -> None:
        """Announce a function that is compiled when it is first called."""
        if name not in self.expected:
            self.expected.append(name)
        # Imported late, for it takes a second; whoever resets Dynamo removes callbacks.
        from torch._dynamo.callback import callback_handler as handler

        for add, remove, callback in (
            (handler.register_start_callback, handler.remove_start_callback, self._start),
            (handler.register_end_callback, handler.remove_end_callback, self._end),
        ):
            with contextlib.suppress(ValueError):
                remove(callback)
            add(callback)

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Within, what this thread compiles is the function of this name."""
        previous = getattr(self._thread, "name", None)
        self._thread.name = name
        try:
            yield
        finally:
            self._thread.name = previous

    def _start(self, *_: Any) -> None:
        name = getattr(self._thread, "name", None)
        if name is None:
            return
        self._began = time.monotonic()
        number, total = len(set(self.compiled)) + 1, len(self.expected)
        # For other shapes or dtypes, or the way back of a loss.
        position = "again" if name in self.compiled else f"({number} of at most {total})"
        logger.info("compiling %s %s, %.0f s so far", name, position, self.seconds)

    def _end(self, *_: Any) -> None:
        name = getattr(self._thread, "name", None)
        if name is None:
            return
        seconds = time.monotonic() - self._began
        self.seconds += seconds
        self.compiled.append(name)
        logger.info("compiled %s in %.0f s", name, seconds)


PROGRESS = Progress()
"""That of this process."""


ON_CPU: dict[str, Any] = {"cpp_wrapper": True, "cpp.threads": 1}
"""One thread runs a graph from its first kernel to its last without holding Python's lock, so threads can share the
battles out: that scales, where sharing each loop of a kernel out costs more than it gives."""
ON_GPU: dict[str, Any] = {"reorder_for_locality": False, "combo_kernels": True}
"""Operations stay in their order: moved behind a kernel that changes the terrain in place, one that reads the terrain
as it was would cost a copy of all of it."""
EXACT: dict[str, Any] = {"pattern_matcher": False}
"""What is added for functions that shall give the bits that operations one by one give. Before torch 2.13 Inductor's
patterns drop a rounding to float32 between two operations in float64."""
EXACT_ON_GPU: dict[str, Any] = {
    **EXACT,
    "emulate_precision_casts": True,
    "eager_numerics.division_rounding": True,
}
"""The same on a GPU: no multiplication is fused with an addition, which the second of these options turns off too, and
no division is approximate."""
RECOMPILE_LIMIT = 64
"""Graphs torch keeps of one function, by default 8: stages, evaluations and matches have shapes of their own."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""The environment variable that names the folder where torch keeps compiled code between programs."""


def keep_graphs() -> dict[str, Any]:
    """Arguments of `torch.compile` by which it keeps as many graphs of a function as there are shapes.

    A torch without such an argument (before 2.13) keeps them of all functions of this process from now on.
    """
    keep_code()
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        return {"recompile_limit": RECOMPILE_LIMIT}
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
    return {}


def keep_code() -> None:
    """Let torch keep compiled code in the user's cache, between programs.

    torch's own folder lies in /tmp, which does not outlive a restart of the machine. It stays where
    `TORCHINDUCTOR_CACHE_DIR` names another one, or the cache cannot be written.
    """
    if CACHE in os.environ:
        return
    with contextlib.suppress(OSError, RuntimeError):  # no home, or one that is read-only
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "echelon" / "torchinductor"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ[CACHE] = str(folder)


def needed_guards(guards: Sequence[Any]) -> list[bool]:
    """Which guards a graph needs: not those of tensordict's notes on which classes are tensorclasses.

    Whoever asks about a class for the first time makes these longer, wherever that is, and with a guard of their length
    everything would be compiled again, which takes minutes.
    """
    return ["_TENSORCLASS_MEMO" not in guard.name for guard in guards]


def outside_graphs(function: Function) -> Function:
    """Decorate a function that calls code of the user's: it is never compiled, by `fused` or within another graph."""
    kept: Function = torch.compiler.disable(function)
    kept.runs_outside_graphs = True  # type: ignore[attr-defined]
    return kept


def fused(
    function: Callable[..., Any],
    device: torch.device,
    on_cpu: dict[str, Any] | None = ON_CPU,
    name: str | None = None,
    exact: bool = False,
) -> Callable[..., Any]:
    """`function` as one graph of fixed shapes, compiled when it is first called; itself where nothing can be compiled,
    or where it runs `outside_graphs`.

    torch keeps graphs by the code of a function: another call of `fused`, as by the environment of the next stage of a
    curriculum, compiles nothing again where shapes and Python's numbers are the same.

    Args:
        on_cpu: options of Inductor on a CPU; None for torch's own.
        name: what the log calls it, by default what Python does.
        exact: whether it gives the same bits on a GPU as operations one by one, see `echelon.runtime.exact`. On a CPU
            it does but for sums.
    """
    if not can_compile(device) or getattr(function, "runs_outside_graphs", False):
        return function
    on_device, added = (on_cpu or {}, EXACT) if device.type == "cpu" else (ON_GPU, EXACT_ON_GPU)
    options = {**on_device, **(added if exact else {}), "guard_filter_fn": needed_guards}
    graph = torch.compile(function, fullgraph=True, dynamic=False, options=options, **keep_graphs())
    label = name or function.__qualname__
    PROGRESS.expect(label)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Who traces the environment as a whole has its own graph.
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with PROGRESS.calling(label):
            return graph(*args, **kwargs)

    return call


def fused_on_gpu(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """`function` as a graph on a GPU; on a CPU itself."""
    return fused(function, device) if device.type == "cuda" else function


def materialize(values: Tensor) -> Tensor:
    """The same tensor. Compiled, it becomes a buffer in the order of its axes: else every reader works it out anew."""
    if not torch.compiler.is_compiling():
        return values
    values = values.contiguous()
    return values.as_strided(values.shape, values.stride())


def axes(vectors: Tensor) -> tuple[Tensor, ...]:
    """Vectors `[..., D]` as D tensors `[...]`, each contiguous, so that a CPU reads the same axis of many at once."""
    return materialize(vectors.movedim(-1, 0)).unbind(0)
