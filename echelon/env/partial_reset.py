"""Resets of some battles by a caller who passes the mask alone."""

from __future__ import annotations

from tensordict import TensorDictBase


def fill_missing(tensordict: TensorDictBase, source: TensorDictBase) -> None:
    """Add the entries of `source` that `tensordict` lacks.

    For `EnvBase._reset_proc_data`: TorchRL shows zeros for a battle that goes on where the caller of `reset` passed
    `_reset` without what was last observed.
    """
    for name, value in source.items():
        own = tensordict.get(name, None)
        if own is None:
            tensordict.set(name, value.clone(recurse=False) if isinstance(value, TensorDictBase) else value)
        elif isinstance(own, TensorDictBase):
            fill_missing(own, value)
