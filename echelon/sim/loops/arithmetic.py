"""Vectors, sums and random numbers of loops, with the bits that `runtime.exact` and `runtime.noise` give."""

import math
from typing import Any

import numpy as np

from echelon.runtime import noise
from echelon.runtime.exact import TO_GRID, sine_64
from echelon.runtime.geometry import TINY
from echelon.runtime.jit import ZERO, device_function
from echelon.runtime.noise import PER_INDEX, PER_STREAM, PER_TICK
from echelon.sim.loops.records import BattleRow

TWO_PI = np.float32(2 * math.pi)
SMALL = np.float32(TINY)
PER_BIT = np.float32(2.0**-24)
sine, mix = device_function(sine_64), device_function(noise.mix)


@device_function
def on_grid(value: Any) -> Any:
    """A float32 as a float64 that sums as in `exact.sum`, in any order."""
    return (float(value) + TO_GRID) - TO_GRID


@device_function
def length_2(x: Any, y: Any) -> Any:
    """`geometry.length` of a vector on the ground plane."""
    return math.sqrt(x * x + y * y)


@device_function
def length_3(x: Any, y: Any, z: Any) -> Any:
    """`geometry.length` of a vector."""
    return math.sqrt(x * x + y * y + z * z)


@device_function
def distance_sq(one: Any, other: Any) -> Any:
    """Squared distance of two points."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


@device_function
def unit_2(x: Any, y: Any) -> Any:
    """`geometry.unit` of a vector on the ground plane."""
    length = max(length_2(x, y), SMALL)
    return x / length, y / length


@device_function
def unit_3(x: Any, y: Any, z: Any) -> Any:
    """`geometry.unit` of a vector."""
    length = max(length_3(x, y, z), SMALL)
    return x / length, y / length, z / length


@device_function
def wrap_angle(angle_rad: Any) -> Any:
    """`geometry.wrap_angle`."""
    return angle_rad - TWO_PI * np.float32(np.rint(angle_rad / TWO_PI))


@device_function
def stream_key(battle: BattleRow, stream: int) -> Any:
    """What the numbers of one stream of a battle are drawn with at its present tick."""
    seed = mix(battle.seed ^ mix(battle.seed >> 32))  # `noise.mix_seed`
    return mix(seed + battle.tick * PER_TICK + stream * PER_STREAM)


@device_function
def uniform(key: Any, index: int) -> Any:
    """`noise.uniform`: number `index` of a stream, in [0, 1)."""
    return np.float32(mix(key + mix(index + PER_INDEX)) >> 8) * PER_BIT


@device_function
def clamped(at: Any, top: Any) -> Any:
    """A cell within 0 .. top."""
    return min(max(at, 0), top)


@device_function
def cell_span(at: Any, half: Any, top: Any) -> Any:
    """The first and the last cell of an axis that a hull of half size `half` spans there, of cells up to `top`."""
    return clamped(int(np.floor(at - half)), top), clamped(int(np.ceil(at + half)) - 1, top)


@device_function
def bits_between(first: int, last: int) -> Any:
    """A bit column with the bits from one to another set."""
    return np.int32((1 << (last + 1)) - (1 << first))


@device_function
def positive(value: Any) -> Any:
    """`value`, or 0 if that is more."""
    return max(value, ZERO)
