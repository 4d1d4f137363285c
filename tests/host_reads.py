"""Count operations that make the host wait for a device."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class HostReads(TorchDispatchMode):
    """Count operations that make the host wait for a device: scalar reads, nonzero, boolean indexing."""

    # In inference mode `Tensor.item` is a separate operation.
    READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")
    SYNCS = (*READS, "aten::nonzero", "aten::masked_select")

    def __init__(self):
        super().__init__()
        self.reads = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        indexes = name in ("aten::index", "aten::index_put", "aten::index_put_")
        by_mask = indexes and any(i is not None and i.dtype == torch.bool for i in args[1])
        if name in self.SYNCS or by_mask:
            self.reads[name] += 1
        return func(*args, **(kwargs or {}))
