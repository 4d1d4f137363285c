"""Launches and bytes of eager operations of a decision, beside its graphs."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PACKAGE = str(Path(__file__).parents[1] / "echelon") + "/"
RESERVES = ("aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided")
"""Operations that allocate memory and write nothing."""


# Set before the package is imported: inference mode hides copies from lists.
torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()  # type: ignore


def place() -> str:
    """Return `file:function` of the innermost frame of the package."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_name}"
        frame = frame.f_back
    return "elsewhere"


def bytes_of(tensor: Tensor) -> int:
    """Return the size of a tensor; expanded axes count once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count * tensor.element_size()


class Launches(TorchDispatchMode):
    """Count the operations that launch a kernel, and the bytes of their inputs and outputs.

    Views and allocations launch nothing; an operation on a list of tensors (`_foreach_*`) is one launch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        """Launches, keyed by place."""
        self.moved: Counter[str] = Counter()
        """Bytes, keyed by place."""
        self.is_counting = True

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager: count nothing inside."""
        before, self.is_counting = self.is_counting, False
        try:
            yield
        finally:
            self.is_counting = before

    def uncounted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with counting paused inside."""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self.paused():
                return function(*args, **kwargs)

        return called

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.is_counting:
            return result
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if not any(tensor.is_cuda for tensor in (*inputs, *outputs)):
            return result
        schema = func._schema
        storages = {tensor.untyped_storage()._cdata for tensor in inputs}
        is_view = not schema.is_mutable and outputs and all(t.untyped_storage()._cdata in storages for t in outputs)
        if not is_view and schema.name.startswith(("aten::", "echelon::")) and schema.name not in RESERVES:
            origin = place()
            self.launches[origin] += 1
            new = [tensor for tensor in outputs if tensor.untyped_storage()._cdata not in storages]
            written = inputs[:1] if schema.is_mutable and not schema.name.startswith("aten::_foreach") else []
            self.moved[origin] += sum(bytes_of(tensor) for tensor in (*inputs, *new, *written))
        return result
