"""Vectors, sums and random numbers for numba loops. Results have the same bits as `runtime.exact` and
`runtime.noise`."""

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
    """Round a float32 to a float64 that can be summed in any order, as in `exact.sum`."""
    return (float(value) + TO_GRID) - TO_GRID


@device_function
def length_2(x: Any, y: Any) -> Any:
    """Numba version of `geometry.length`, for a vector on the ground plane."""
    return math.sqrt(x * x + y * y)


@device_function
def length_3(x: Any, y: Any, z: Any) -> Any:
    """Numba version of `geometry.length`."""
    return math.sqrt(x * x + y * y + z * z)


@device_function
def distance_sq(one: Any, other: Any) -> Any:
    """Return the squared distance of two points."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


@device_function
def unit_2(x: Any, y: Any) -> Any:
    """Numba version of `geometry.unit`, for a vector on the ground plane."""
    length = max(length_2(x, y), SMALL)
    return x / length, y / length


@device_function
def unit_3(x: Any, y: Any, z: Any) -> Any:
    """Numba version of `geometry.unit`."""
    length = max(length_3(x, y, z), SMALL)
    return x / length, y / length, z / length


@device_function
def wrap_angle(angle_rad: Any) -> Any:
    """Numba version of `geometry.wrap_angle`."""
    return angle_rad - TWO_PI * np.float32(np.rint(angle_rad / TWO_PI))


@device_function
def stream_key(battle: BattleRow, stream: int) -> Any:
    """Return the key of one random stream of a battle at its current tick; see `uniform`."""
    seed = mix(battle.seed ^ mix(battle.seed >> 32))  # `noise.mix_seed`
    return mix(seed + battle.tick * PER_TICK + stream * PER_STREAM)


@device_function
def uniform(key: Any, index: int) -> Any:
    """Numba version of `noise.uniform`: sample `index` of a stream, in [0, 1)."""
    return np.float32(mix(key + mix(index + PER_INDEX)) >> 8) * PER_BIT


@device_function
def clamped(at: Any, top: Any) -> Any:
    """Clamp a cell to 0 .. `top`."""
    return min(max(at, 0), top)


@device_function
def cell_span(at: Any, half: Any, top: Any) -> Any:
    """Return the first and last cell that a hull of half size `half` spans along an axis, clamped to the range from 0
    to `top`."""
    return clamped(int(np.floor(at - half)), top), clamped(int(np.ceil(at + half)) - 1, top)


@device_function
def bits_between(first: int, last: int) -> Any:
    """Return a bit column with the bits `first` to `last` set."""
    return np.int32((1 << (last + 1)) - (1 << first))


@device_function
def positive(value: Any) -> Any:
    """Return the maximum of `value` and 0."""
    return max(value, ZERO)
