"""Running normalisation of value targets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echelon.learn.padding import mean_of_existing
from echelon.runtime.distributed import ALONE, Ranks

EPSILON = 1e-6


class ValueNorm(nn.Module):
    """Exponential moving mean and deviation of the value targets; the critic predicts normalised values.

    TorchRL's `PopArtValueNorm` only normalises the loss. With this class, the critic's output is converted to real
    units before it is combined with rewards. The sums are float64, because the variance is a difference of two sums,
    whose digits would cancel in float32 if the mean were thousands of standard deviations.
    """

    mean: Tensor
    square: Tensor
    weight: Tensor

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        for name in ("mean", "square", "weight"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64, device="cpu"))

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation as float64 scalars; 0 and 1 before the first update."""
        is_updated = self.weight > 0
        weight = torch.where(is_updated, self.weight, 1.0)
        mean = self.mean / weight
        deviation = (self.square / weight - mean.square()).clamp_min(EPSILON).sqrt()
        return mean, torch.where(is_updated, deviation, 1.0)

    @torch.no_grad()
    def update(self, target: Tensor, ranks: Ranks = ALONE, exists: Tensor | None = None) -> None:
        """Update with the value targets of an iteration, of any shape; every process must pass the same number of
        targets.

        Args:
            target: the targets, in real units.
            ranks: the processes.
            exists: mask of the targets that count, as in `mean_of_existing`; None for all.
        """
        target = target.double()
        for total, values in ((self.mean, target), (self.square, target.square())):
            total.mul_(self.decay).add_((1 - self.decay) * ranks.mean(mean_of_existing(values, exists)))
        self.weight.mul_(self.decay).add_(1 - self.decay)

    def normalise(self, value: Tensor) -> Tensor:
        """Convert values from real units to normalised units."""
        mean, deviation = self.moments()
        return ((value - mean) / deviation).to(value.dtype)

    def denormalise(self, value: Tensor) -> Tensor:
        """Convert values from normalised units to real units."""
        mean, deviation = self.moments()
        return (value * deviation + mean).to(value.dtype)
