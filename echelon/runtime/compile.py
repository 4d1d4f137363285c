"""Compile functions with `torch.compile`, and log the progress."""

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
"""Logs at level INFO; programs print these lines."""


class Progress:
    """Logs each compilation of a function that `expect` announced and that is called within `calling`."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        """Unique names of the functions that may be compiled in this process."""
        self.compiled: list[str] = []
        """Names of the compiled functions, one entry per graph."""
        self.seconds = 0.0
        """Total compile time, s."""
        self._began = 0.0
        self._thread = threading.local()

    def expect(self, name: str) -> None:
        """Announce a function that will be compiled at its first call."""
        if name not in self.expected:
            self.expected.append(name)
        # Imported here, because the import takes a second.
        from torch._dynamo.callback import callback_handler as handler

        # Register the callbacks at each call, because a reset of Dynamo removes them.
        for add, remove, callback in (
            (handler.register_start_callback, handler.remove_start_callback, self._start),
            (handler.register_end_callback, handler.remove_end_callback, self._end),
        ):
            with contextlib.suppress(ValueError):
                remove(callback)
            add(callback)

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Context manager in which compilations by this thread are logged under `name`."""
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
        # A function is compiled again for other shapes or dtypes, and for its backward pass.
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
"""The `Progress` of this process."""


ON_CPU: dict[str, Any] = {"cpp_wrapper": True, "cpp.threads": 1}
"""Inductor options on a CPU. One thread runs a whole graph without holding the GIL, so several threads can each run a
part of the battles. This scales; splitting each loop of a kernel over threads costs more than it gains."""
ON_GPU: dict[str, Any] = {"reorder_for_locality": False, "combo_kernels": True}
"""Inductor options on a GPU. Keep the order of operations: a read of the terrain that is moved after an in-place write
would need a copy of the whole terrain."""
EXACT: dict[str, Any] = {"pattern_matcher": False}
"""Additional options for the same bits as eager mode. Before torch 2.13, Inductor's patterns drop a rounding to float32
between two float64 operations."""
EXACT_ON_GPU: dict[str, Any] = {
    **EXACT,
    "emulate_precision_casts": True,
    "eager_numerics.division_rounding": True,
}
"""`EXACT` on a GPU: no fused multiply-add, which `emulate_precision_casts` also disables, and no approximate
division."""
RECOMPILE_LIMIT = 64
"""Maximum number of graphs per function (torch's default is 8), because stages, evaluations and matches differ in
shape."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder in which torch caches compiled code."""


def keep_graphs() -> dict[str, Any]:
    """Return arguments of `torch.compile` that raise its limit of graphs per function to `RECOMPILE_LIMIT`.

    Before torch 2.13, `torch.compile` has no argument for this limit, so the limit is set for all functions of the
    process.
    """
    keep_code()
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        return {"recompile_limit": RECOMPILE_LIMIT}
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
    return {}


def keep_code() -> None:
    """Let torch cache compiled code in the user's cache folder.

    torch's default folder is in /tmp, which a reboot clears. This function does nothing if `TORCHINDUCTOR_CACHE_DIR` is
    set, or the cache folder is not writable.
    """
    if CACHE in os.environ:
        return
    with contextlib.suppress(OSError, RuntimeError):  # The home folder may be missing or read-only.
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "echelon" / "torchinductor"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ[CACHE] = str(folder)


def needed_guards(guards: Sequence[Any]) -> list[bool]:
    """Return which guards a graph keeps: all except guards on tensordict's cache of tensorclass checks.

    The cache of tensordict grows whenever any code checks a new class. A guard on the cache's length would then
    recompile every graph, which takes minutes.
    """
    return ["_TENSORCLASS_MEMO" not in guard.name for guard in guards]


def outside_graphs(function: Function) -> Function:
    """Decorator for a function that calls the user's code. The function is never compiled, neither by `fused` nor
    within another graph."""
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
    """Return `function` as one graph with static shapes, compiled at its first call.

    Returns `function` unchanged if the device cannot compile, or the function runs `outside_graphs`. torch caches
    graphs by the code of a function. Therefore another call of `fused`, as for the next stage of a curriculum, does not
    recompile if the shapes and Python numbers are the same.

    Args:
        function: the function to compile.
        device: the device of its tensors.
        on_cpu: options of Inductor on a CPU; None for torch's defaults.
        name: name in the log, by default the qualified name of the function.
        exact: whether a GPU must give the same bits as eager mode; see `echelon.runtime.exact`. On a CPU, compiled code
            differs from eager mode only in sums.
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
        # If the caller is being compiled as a whole, let its graph include this function.
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with PROGRESS.calling(label):
            return graph(*args, **kwargs)

    return call


def fused_on_gpu(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Return `fused(function)` on a GPU, and `function` on a CPU."""
    return fused(function, device) if device.type == "cuda" else function


def materialize(values: Tensor) -> Tensor:
    """Return the same tensor. In compiled code the tensor becomes a contiguous buffer, so that later operations do not
    recompute it."""
    if not torch.compiler.is_compiling():
        return values
    values = values.contiguous()
    return values.as_strided(values.shape, values.stride())


def axes(vectors: Tensor) -> tuple[Tensor, ...]:
    """Split vectors `[..., D]` into D contiguous tensors `[...]`, which a CPU can vectorize over."""
    return materialize(vectors.movedim(-1, 0)).unbind(0)
