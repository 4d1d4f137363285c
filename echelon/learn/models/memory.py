"""Recurrent memory between decisions: stepped while acting, unrolled over whole sequences while learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict.utils import expand_as_right
from torch import Tensor, nn
from torchrl.data import Composite

MemoryState = dict[str, Tensor]
"""Recurrent state keyed by the names in `Memory.spec`, `[..., *shape]` float32 each."""


class Memory(nn.Module):
    """Base class. A subclass defines `spec` and `step`, and may define a faster `unroll`.

    Args:
        hidden: width of the embedding that `step` returns.
    """

    supports_vmap: ClassVar[bool] = True
    """Whether `torch.vmap` can run `step` over stacked weights: not for `nn.GRU`, but for plain tensor operations. If
    False, frozen policies run one after the other."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    def spec(self) -> Composite:
        """Float leaves of one mech's recurrent state; zero at the start of a battle."""
        raise NotImplementedError(f"{type(self).__name__}.spec must return a Composite")

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """Compute one decision.

        Args:
            features: encoder output `[..., F]` with any number of dimensions before F; flatten these for layers that
                require rows.
            state: recurrent state, `[..., *shape]` each.

        Returns:
            The embedding `[..., hidden]`, and the next state with every leaf of `spec`.
        """
        raise NotImplementedError(f"{type(self).__name__}.step must return an embedding and the next state")

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """Return the embeddings `[T, R, hidden]` of the sequence `features [T, R, F]`, equal to those of repeated
        `step`.

        Args:
            state: recurrent state before the first decision, `[R, *shape]` each.
            keep: 0 at the first decision of a battle, where the state is reset, else 1; `[T, R, 1]`.
        """
        embeddings = []
        for features_t, keep_t in zip(features.unbind(0), keep.unbind(0), strict=True):
            embedding, state = self.step(features_t, masked_state(state, keep_t))
            state = as_float32(state)
            embeddings.append(embedding)
        return torch.stack(embeddings)


def masked_state(state: Mapping[str, Tensor], keep: Tensor) -> MemoryState:
    """Return `state` with zeros where `keep [R, 1]` is 0."""
    return {name: leaf * expand_as_right(keep[:, 0], leaf) for name, leaf in state.items()}


def as_float32(state: Mapping[str, Tensor]) -> MemoryState:
    """Return `state` in float32, the dtype in which it is stored whatever the precision of the matrix products."""
    return {name: leaf.float() for name, leaf in state.items()}
