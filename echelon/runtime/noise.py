"""Counter-based random numbers: each battle draws from its own seed and clock, wherever it sits in the batch.

A 32-bit integer hash (the finaliser of MurmurHash3, Appleby 2011) in int64 arithmetic, because torch has few
uint32 operations. No generator state exists, so a draw is repeatable from (seed, tick, stream, index) alone.
"""

import math
from enum import IntEnum

import torch
from torch import Tensor

from echelon.runtime import exact

_MASK = 0xFFFFFFFF
PER_TICK, PER_STREAM, PER_INDEX = 0x9E3779B1, 0x632BE5AB, 0x7F4A7C15
"""What parts the ticks, the streams and the numbers of a draw before they are mixed."""


class Stream(IntEnum):
    """What a number is drawn for; streams of one battle never share numbers."""

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
    """Scramble non-negative int64 values into uniform 32-bit integers, element by element; loops compile it too."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _MASK
    return x ^ (x >> 16)


def mix_seed(seed: Tensor) -> Tensor:
    """`mix` of both words of int64 seeds `[B]`; `mix(0)` is 0, so that a seed below 2**32 is its low word alone."""
    return mix(seed ^ mix(seed >> 32))


def bits(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """32 random bits.

    Args:
        seed: `[B]` int64, one a battle. Seeds that differ in either word draw other numbers; there are 2**32 sequences.
        tick: `[B]` integer or a number, the battle's clock.
        stream: a `Stream`.

    Returns:
        `[B, count]` int64 in 0 .. 2**32 - 1.
    """
    index = torch.arange(count, device=seed.device)
    key = mix(mix_seed(seed) + tick * PER_TICK + int(stream) * PER_STREAM)
    return mix(key[:, None] + mix(index + PER_INDEX))


def uniform(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """`[B, count]` float32 in [0, 1), 24 random bits each; arguments as in `bits`."""
    return (bits(seed, tick, stream, count) >> 8).to(torch.float32) * 2.0**-24


def normal(seed: Tensor, tick: Tensor | int, stream: int, count: int) -> Tensor:
    """`[B, count]` float32 from the standard normal distribution (Box & Muller 1958); arguments as in `bits`."""
    radius_draw, turn = uniform(seed, tick, stream, 2 * count).chunk(2, 1)
    return exact.sqrt(-2 * exact.log(1 - radius_draw)) * exact.cos_sin(2 * math.pi * turn)[..., 0]


def battle_seeds(seed: int, num_envs: int, device: torch.device) -> Tensor:
    """`[B]` int64: one seed a battle, spread from one number."""
    root = torch.full((1,), seed, dtype=torch.int64, device=device)
    return bits(root, 0, Stream.BATTLE, num_envs)[0]
