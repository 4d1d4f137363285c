"""What connects the decisions of a battle: stepped while acting, unrolled over whole sequences while learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict.utils import expand_as_right
from torch import Tensor, nn
from torchrl.data import Composite

MemoryState = dict[str, Tensor]
"""What the mechs remember, by the names of `Memory.spec`: `[..., *shape]` float32 each."""


class Memory(nn.Module):
    """Base class. A subclass defines `spec` and `step`, and may define a faster `unroll`.

    Args:
        hidden: width of the embedding that `step` returns.
    """

    supports_vmap: ClassVar[bool] = True
    """Whether `torch.vmap` can run `step` over stacked weights: false for `nn.GRU`, true for plain operations. Where it
    is false, frozen policies run one after the other."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    def spec(self) -> Composite:
        """Float leaves that one mech remembers; they are zero at the start of a battle."""
        raise NotImplementedError(f"{type(self).__name__}.spec must return a Composite")

    def step(self, features: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """One decision.

        Args:
            features: `[..., F]` what the encoder made of the observation, with any number of dimensions before F: a
                layer that takes rows needs them flattened.
            state: what the mechs remember, `[..., *shape]` each.

        Returns:
            The embedding `[..., hidden]`, and what the mechs remember next, every leaf of `spec`.
        """
        raise NotImplementedError(f"{type(self).__name__}.step must return an embedding and the next state")

    def unroll(self, features: Tensor, state: MemoryState, keep: Tensor) -> Tensor:
        """`[T, R, hidden]` embeddings of a sequence, equal to repeated `step`, from `features [T, R, F]`.

        Args:
            state: what the mechs remember before the first decision, `[R, *shape]` each.
            keep: `[T, R, 1]` 0 at the first decision of a battle, where the state is reset, else 1.
        """
        embeddings = []
        for features_t, keep_t in zip(features.unbind(0), keep.unbind(0), strict=True):
            embedding, state = self.step(features_t, masked_state(state, keep_t))
            state = as_float32(state)
            embeddings.append(embedding)
        return torch.stack(embeddings)


def masked_state(state: Mapping[str, Tensor], keep: Tensor) -> MemoryState:
    """`state`, set to zero where `keep [R, 1]` is 0."""
    return {name: leaf * expand_as_right(keep[:, 0], leaf) for name, leaf in state.items()}


def as_float32(state: Mapping[str, Tensor]) -> MemoryState:
    """`state` in float32, in which it is stored whatever the precision of the matrix products."""
    return {name: leaf.float() for name, leaf in state.items()}
