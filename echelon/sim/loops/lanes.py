"""How the work on one battle is shared out to the lanes of a GPU's warp.

A lane is a number from 0 to 31 there, and None on a CPU, where all work is one lane's: numba leaves out what the other
case needs. Where several mechs or shots are written to, the first lane works alone, in the order of a CPU. Two lanes
may write to one place only if both write the same.
"""

from typing import Any, TypeAlias

from echelon.runtime.jit import device_function

LANES = 32
"""Lanes of a warp."""
Lane: TypeAlias = Any
"""The number of a lane, or None."""
barrier: Any = None
"""Makes the lanes of a warp wait for each other; set by whoever compiles loops for a GPU."""


@device_function
def first(lane: Lane) -> Any:
    """The first index that a lane works on: `range(first(lane), count, stride(lane))` has all of them. numba compiles
    that as well as `range(count)`, and a range that a function returns 5 % slower."""
    if lane is None:
        return 0
    return lane


@device_function
def stride(lane: Lane) -> Any:
    """How far apart the indices are that a lane works on."""
    if lane is None:
        return 1
    return 32


@device_function
def is_first(lane: Lane) -> Any:
    """Whether a lane does what one does for all."""
    return True if lane is None else lane == 0


@device_function
def wait(lane: Lane) -> None:
    """Wait until all lanes are here: what they wrote before is read from here on."""
    if lane is not None:
        barrier()
