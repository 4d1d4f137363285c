"""Resets of some battles by a caller who passes the mask alone."""

from __future__ import annotations

from tensordict import TensorDictBase
from torchrl.envs import EnvBase


class PartialResetEnv(EnvBase):
    """An environment whose `reset` of some battles shows the others as they were.

    TorchRL shows zeros of them where the caller passed `_reset` without what was last observed; `_reset` of a subclass
    returns it.
    """

    def _reset_proc_data(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if tensordict is not None:
            fill_missing(tensordict, tensordict_reset)
        merged: TensorDictBase = super()._reset_proc_data(tensordict, tensordict_reset)
        return merged


def fill_missing(tensordict: TensorDictBase, source: TensorDictBase) -> None:
    """Add the entries of `source` that `tensordict` lacks."""
    for name, value in source.items():
        own = tensordict.get(name, None)
        if own is None:
            tensordict.set(name, value.clone(recurse=False) if isinstance(value, TensorDictBase) else value)
        elif isinstance(own, TensorDictBase):
            fill_missing(own, value)
