"""Whole-number draws of map making, one substream a purpose."""

from enum import IntEnum

import torch
from torch import Tensor

from echelon.runtime.noise import Stream, bits

FRACTION_BITS = 16


class Draw(IntEnum):
    """What a number of a map is drawn for; purposes of one map never share numbers."""

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
    """First of the stamps' purposes, `STAMPS_A_BIOME` for each biome."""


STAMPS_A_BIOME = 16


def fractions(seeds: Tensor, purpose: int, count: int) -> Tensor:
    """`[M, count]` int64 in 0 .. 65535, for seeds `[M]`: a random share of 65536."""
    return bits(seeds, purpose, Stream.WORLD, count) >> (32 - FRACTION_BITS)


def pick(fraction: Tensor, low: Tensor | int, high: Tensor | int) -> Tensor:
    """A whole number from `low` to `high`, both included, by integer arithmetic alone."""
    return low + (fraction * (high - low + 1) >> FRACTION_BITS)


def chance(fraction: Tensor, share: float) -> Tensor:
    """True in `share` of the draws; a draw that is true at one share stays true at every larger one."""
    return fraction < round(share * 2**FRACTION_BITS)


def cells(size_x: int, size_y: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """x `[1, 1, X]` and y `[1, Y, 1]` int64 of every column."""
    x = torch.arange(size_x, device=device)[None, None]
    return x, torch.arange(size_y, device=device)[None, :, None]
