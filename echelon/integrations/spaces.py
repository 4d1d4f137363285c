"""Conversion of TorchRL's specs to gymnasium's spaces, and of tensors to NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, TensorSpec

from echelon.views.view import View


class MaskedMultiDiscrete(spaces.MultiDiscrete):
    """A `MultiDiscrete [F]` that can sample with an `action_mask [S]`, the concatenated options of all factors."""

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        """Return a random action among the options that `mask` allows.

        The mask is one array, or one array per factor.
        """
        if isinstance(mask, np.ndarray):
            mask = tuple(np.split(mask, np.cumsum(self.nvec)[:-1]))
        return super().sample(mask, probability)


def space_of(spec: TensorSpec) -> spaces.Space:
    """Convert a spec without batch dimensions to a `Box`, `Discrete`, `MultiDiscrete`, or a `Dict` of spaces.

    Boolean values become a `Box` of 0 and 1, int8, like PettingZoo's action masks.
    """
    if isinstance(spec, Composite):
        return spaces.Dict({name: space_of(spec[name]) for name in spec.keys()})
    if isinstance(spec, Categorical) and spec.dtype == torch.bool:
        return spaces.Box(0, 1, tuple(spec.shape), np.int8)
    if isinstance(spec, MultiCategorical):
        return MaskedMultiDiscrete(spec.nvec.cpu().numpy())
    if isinstance(spec, Categorical):
        return spaces.Discrete(spec.n)
    if isinstance(spec, Bounded):
        low, high = (getattr(spec.space, end).cpu().numpy() for end in ("low", "high"))
        return spaces.Box(low, high, dtype=low.dtype)
    return spaces.Box(-np.inf, np.inf, tuple(spec.shape), np.float32)


def arrays_of(values: Tensor | TensorDictBase | Mapping[str, Any]) -> Any:
    """Convert tensors to NumPy arrays on the host, with the structure of `space_of`; bool becomes int8."""
    if not isinstance(values, Tensor):
        return {name: arrays_of(value) for name, value in values.items()}
    return (values.to(torch.int8) if values.dtype == torch.bool else values).cpu().numpy()


def bad_actions(view: View) -> np.ndarray:
    """Return how many non-finite values were in each mech's actions during its battle, `[B, n]` int64.

    Each of these values was replaced by 0.
    """
    counts = view.env.state.tally.bad_actions
    own = view.commanded.among_all(counts, view.env.teams)
    return own.cpu().numpy().astype(np.int64)
