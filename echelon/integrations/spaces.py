"""TorchRL's specs as gymnasium's spaces, and what they describe as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, TensorSpec

from echelon.views.view import View


def space_of(spec: TensorSpec) -> spaces.Space:
    """The space of what `spec` describes, without batch: a `Box`, a `Discrete`, or a `Dict` of spaces.

    Flags become a `Box` of 0 and 1, int8, as PettingZoo has its action masks.
    """
    if isinstance(spec, Composite):
        return spaces.Dict({name: space_of(spec[name]) for name in spec.keys()})
    if isinstance(spec, Categorical) and spec.dtype == torch.bool:
        return spaces.Box(0, 1, tuple(spec.shape), np.int8)
    if isinstance(spec, Categorical):
        return spaces.Discrete(spec.n)
    if isinstance(spec, Bounded):
        low, high = (getattr(spec.space, end).cpu().numpy() for end in ("low", "high"))
        return spaces.Box(low, high, dtype=low.dtype)
    return spaces.Box(-np.inf, np.inf, tuple(spec.shape), np.float32)


def arrays_of(values: Tensor | TensorDictBase) -> Any:
    """Arrays of the host, flags as int8, in the form of `space_of`: an array, or arrays by name."""
    if isinstance(values, TensorDictBase):
        return {name: arrays_of(values.get(name)) for name in values.keys()}
    return (values.to(torch.int8) if values.dtype == torch.bool else values).cpu().numpy()


def bad_actions(view: View) -> np.ndarray:
    """`[B, n]` int64: how many numbers of a mech's actions were not finite in its battle so far; each counted as 0."""
    counts = view.env.state.tally.bad_actions
    own = view.commanded.gather(*(counts[:, span] for span in view.env.teams.values()))
    return own.cpu().numpy().astype(np.int64)
