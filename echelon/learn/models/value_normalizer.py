"""The scale of values, learnt as returns are seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echelon.runtime.distributed import ALONE, Ranks

EPSILON = 1e-6


class ValueNorm(nn.Module):
    """Running mean and deviation of the value targets; the critic works in their units.

    TorchRL's `PopArtValueNorm` normalises the loss only. Here what the critic outputs is turned back into real units
    before it meets a reward.
    """

    mean: Tensor
    square: Tensor
    weight: Tensor

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        for name in ("mean", "square", "weight"):
            self.register_buffer(name, torch.zeros(()))

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation so far; 0 and 1 before the first update."""
        seen = self.weight > 0
        weight = torch.where(seen, self.weight, 1.0)
        mean = self.mean / weight
        deviation = (self.square / weight - mean.square()).clamp_min(EPSILON).sqrt()
        return mean, torch.where(seen, deviation, 1.0)

    @torch.no_grad()
    def update(self, target: Tensor, ranks: Ranks = ALONE) -> None:
        """Take in the value targets of an iteration, as many of each process."""
        for total, new in ((self.mean, target.mean()), (self.square, target.square().mean())):
            total.mul_(self.decay).add_((1 - self.decay) * ranks.mean(new))
        self.weight.mul_(self.decay).add_(1 - self.decay)

    def normalise(self, value: Tensor) -> Tensor:
        """Real units to the critic's."""
        mean, deviation = self.moments()
        return (value - mean) / deviation

    def denormalise(self, value: Tensor) -> Tensor:
        """The critic's units to real ones."""
        mean, deviation = self.moments()
        return value * deviation + mean
