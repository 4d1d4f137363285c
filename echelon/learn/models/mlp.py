"""Feed-forward replacement for the LSTM."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from echelon.learn.models.encoder import orthogonal


class Feedforward(nn.Module):
    """Linear layer with ReLU and the interface of `LSTM`, without state."""

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__()
        self.layer = orthogonal(nn.Linear(width_in, hidden))

    def step(self, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """New `h` `[..., hidden]` from `features [..., width_in]`; the old `h` is ignored, `c` returned unchanged."""
        return F.relu(self.layer(features)).float(), c

    def forward(self, features: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """`[T, R, hidden]` from `features [T, R, width_in]`, every decision on its own."""
        return F.relu(self.layer(features)).float()
