"""Integer random draws for map generation, with one substream per purpose."""

from enum import IntEnum

import torch
from torch import Tensor

from echelon.runtime.noise import Stream, bits

FRACTION_BITS = 16


class Draw(IntEnum):
    """Purposes of random draws. Different purposes use different random numbers."""

    POOL = 0
    SPLIT = 1
    BIOME = 2
    CORNER = 3
    SPAWN_JITTER = 4
    SPAWN_YAW = 5
    ZONE_RADIUS = 6
    ZONE_CENTER = 7
    RING = 8
    FLANK = 9
    STAMP = 64
    """First purpose of stamps. Each biome has `STAMPS_A_BIOME` purposes."""


STAMPS_A_BIOME = 16


def fractions(seeds: Tensor, purpose: int, count: int) -> Tensor:
    """Return random integers in 0 .. 65535, `[M, count]` int64, for seeds `[M]`."""
    return bits(seeds, purpose, Stream.WORLD, count) >> (32 - FRACTION_BITS)


def pick(fraction: Tensor, low: Tensor | int, high: Tensor | int) -> Tensor:
    """Map a fraction of 65536 to an integer from `low` to `high`, inclusive, using only integer arithmetic."""
    return low + (fraction * (high - low + 1) >> FRACTION_BITS)


def chance(fraction: Tensor, share: float) -> Tensor:
    """Return True with probability `share`. A draw that is True stays True for every larger share."""
    return fraction < round(share * 2**FRACTION_BITS)


def cells(size_x: int, size_y: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return x `[1, 1, X]` and y `[1, Y, 1]`, int64, of all columns."""
    x = torch.arange(size_x, device=device)[None, None]
    return x, torch.arange(size_y, device=device)[None, :, None]
