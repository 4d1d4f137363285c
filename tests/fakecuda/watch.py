"""Record the costs on a GPU: host reads, host-device transfers, and operations with tensors of both devices."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PACKAGE = str(Path(__file__).parents[2] / "echelon") + "/"
READS = ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")
SHAPED_BY_DATA = tuple(
    f"aten::{name}" for name in ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")
)
COPIES = ("aten::_to_copy", "aten::copy_")
ANSWERS = {torch.bool: False, torch.int32: 0, torch.int64: 0}


def place() -> str:
    """Return `file:function` of the innermost frame of the package."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_name}"
        frame = frame.f_back
    return "elsewhere"


class Watch(TorchDispatchMode):
    """Count, by place, operations that make the host wait or cannot run. Scalar reads return a value to continue.

    Use it above a `FakeTensorMode`. A 0-dimensional CPU tensor is allowed in a device operation, because it becomes a
    kernel argument.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        """Waits for the device by place: scalar reads, and data-dependent shapes."""
        self.transfers: Counter[str] = Counter()
        """Copies between host and device, keyed by direction and place."""
        self.mixes: Counter[str] = Counter()
        """Operations with tensors of both devices, by place."""
        self.operations: Counter[str] = Counter()
        """Operations on the device by name."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name, kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_device = any(tensor.is_cuda for tensor in given)
        if name in READS and isinstance(given[0], FakeTensor):
            self.reads[place()] += on_device
            # End loops that run until nothing changes.
            return True if name == "aten::equal" else ANSWERS.get(given[0].dtype, 0.0)
        if on_device and (name in SHAPED_BY_DATA or self._is_unsized(name, args, kwargs)):
            self.reads[place()] += 1
            # Assume that all values are different and nonzero.
            if name == "aten::_unique2":
                return given[0].flatten(), given[0].flatten(), given[0].flatten()
            if name == "aten::nonzero":
                return given[0].new_empty((given[0].numel(), given[0].dim()), dtype=torch.int64)
        # torch has no fake kernel of the fused optimiser with a tensor learning rate.
        found = None if func is torch.ops.aten._fused_adam_.tensor_lr else func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        if on_device or any(tensor.is_cuda for tensor in made):
            self._note(name, given, made)
        return found

    @staticmethod
    def _is_unsized(name: str, args: Any, kwargs: Any) -> bool:
        """Return whether the output shape depends on data: mask indexing, or repeating by a tensor."""
        if name in ("aten::index", "aten::index_put", "aten::index_put_"):
            return any(index is not None and index.dtype == torch.bool for index in args[1])
        return name == "aten::repeat_interleave" and kwargs.get("output_size") is None

    def _note(self, name: str, given: list[Tensor], made: list[Tensor]) -> None:
        self.operations[name] += 1
        # A copy has tensors on both devices: its input and its output.
        kinds = {tensor.device.type for tensor in (*given, *made)}
        if name in COPIES and len(kinds) > 1:
            target = (given if name == "aten::copy_" else made)[0].device.type
            self.transfers[f"to {'host' if target == 'cpu' else 'device'}: {place()}"] += 1
        elif any(not tensor.is_cuda and tensor.dim() > 0 for tensor in (*given, *made)):
            self.mixes[f"{name}: {place()}"] += 1
