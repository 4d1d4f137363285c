"""Counter-based random numbers. The draws of a battle depend on its seed and tick, not on its index in the batch.

The generator is a 32-bit integer hash, the finaliser of MurmurHash3 (Appleby 2011). The hash uses int64 arithmetic,
because torch has few uint32 operations. There is no generator state: (seed, tick, stream, index) determines a draw.
"""

import math
from enum import IntEnum

import torch
from torch import Tensor

from echelon.runtime import exact

_MASK = 0xFFFFFFFF
PER_TICK, PER_STREAM, PER_INDEX = 0x9E3779B1, 0x632BE5AB, 0x7F4A7C15
"""Multipliers of tick, stream and index that separate their values before mixing."""


class Stream(IntEnum):
    """Purposes of random numbers. Different streams of a battle use different numbers."""

    MAP = 1
    EPISODE = 2
    BEAM_HEIGHT = 3
    PRIORITY = 4
    BATTLE = 5
    WORLD = 6
    STAGGER = 7
    AMS = 8
    WRECK = 9
    ACTION = 10
    BIOME = 11
    LEVEL = 12
    PLACE = 13
    DRILL = 14


def mix(x: Tensor) -> Tensor:
    """Hash non-negative int64 values to uniform 32-bit integers, elementwise. Also used in loops."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _MASK
    return x ^ (x >> 16)


def mix_seed(seed: Tensor) -> Tensor:
    """Hash both words of int64 seeds `[B]`. Because `mix(0)` is 0, seeds below 2**32 depend only on their low word."""
    return mix(seed ^ mix(seed >> 32))


def bits(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """Draw 32 random bits.

    Args:
        seed: one seed per battle, `[B]` int64; both its upper and its lower 32 bits affect the numbers, but there are
            only 2**32 different sequences.
        tick: the tick of each battle, an integer tensor `[B]` or an integer.
        stream: the purpose of the numbers, a `Stream`.
        count: number of draws per battle.

    Returns:
        Random integers in 0 .. 2**32 - 1, `[B, count]` int64.
    """
    index = torch.arange(count, device=seed.device)
    key = mix(mix_seed(seed) + tick * PER_TICK + int(stream) * PER_STREAM)
    return mix(key[:, None] + mix(index + PER_INDEX))


def uniform(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """Draw `[B, count]` float32 in [0, 1), with 24 random bits each. Arguments as in `bits`."""
    return (bits(seed, tick, stream, count) >> 8).to(torch.float32) * 2.0**-24


def normal(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """Draw `[B, count]` float32 from the standard normal distribution (Box & Muller 1958). Arguments as in `bits`."""
    radius_draw, turn = uniform(seed, tick, stream, 2 * count).chunk(2, 1)
    return exact.sqrt(-2 * exact.log(1 - radius_draw)) * exact.cos_sin(2 * math.pi * turn)[..., 0]


def battle_seeds(seed: int, num_envs: int, device: torch.device) -> Tensor:
    """Return one seed per battle, `[B]` int64, derived from a single seed."""
    root = torch.full((1,), seed, dtype=torch.int64, device=device)
    return bits(root, 0, Stream.BATTLE, num_envs)[0]
