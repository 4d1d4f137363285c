"""Distribution of the work on one battle over the lanes of a GPU warp.

On a GPU a lane is a number from 0 to 31. On a CPU the lane is None and does all the work; numba then compiles only the
CPU branches. Code that writes to several mechs or shots runs on the first lane only, in the same order as on a CPU.
Two lanes may write to the same address only if both write the same value.
"""

from typing import Any, TypeAlias

from echelon.runtime.jit import device_function

LANES = 32
"""Number of lanes in a warp."""
Lane: TypeAlias = Any
"""The number of a lane, or None."""
barrier: Any = None
"""Synchronizes the lanes of a warp. Set by the code that compiles loops for a GPU."""


@device_function
def first(lane: Lane) -> Any:
    """Return the first index of a lane, whose indices are `range(first(lane), count, stride(lane))`.

    This range is as fast as `range(count)`; a range that a function returns is 5 % slower in numba.
    """
    if lane is None:
        return 0
    return lane


@device_function
def stride(lane: Lane) -> Any:
    """Return the step between the indices that a lane processes."""
    if lane is None:
        return 1
    return 32


@device_function
def is_first(lane: Lane) -> Any:
    """Return True on the single lane that does the work which must not be done by several lanes."""
    return True if lane is None else lane == 0


@device_function
def wait(lane: Lane) -> None:
    """Wait until all lanes arrive. Afterwards, all lanes see the earlier writes of every lane."""
    if lane is not None:
        barrier()
