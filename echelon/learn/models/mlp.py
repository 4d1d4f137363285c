"""A layer in the place of a memory."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from echelon.learn.models.encoder import orthogonal


class Feedforward(nn.Module):
    """In the place of an LSTM: a layer that remembers nothing."""

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__()
        self.layer = orthogonal(nn.Linear(width_in, hidden))

    def step(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """`[..., hidden]` features of a decision; `c` passes."""
        return F.relu(self.layer(features)).float(), c

    def forward(self, features: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """`[T, R, hidden]`, each decision by itself."""
        return F.relu(self.layer(features)).float()
