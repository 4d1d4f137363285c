"""How the work on one battle is shared out to the lanes of a GPU's warp.

A lane is a number from 0 to 31 there, and None on a CPU, where all work is one lane's: numba leaves out what the other
case needs. Where several mechs or shots are written to, the first lane works alone, in the order of a CPU. Two lanes
may write to one place only if both write the same.
"""

from __future__ import annotations

from typing import Any

from echelon.runtime.jit import called

LANES = 32
"""Lanes of a warp."""
barrier: Any = None
"""Makes the lanes of a warp wait for each other; set by whoever compiles loops for a GPU."""


@called
def first(lane: Any) -> Any:
    """The first index that a lane works on: `range(first(lane), count, stride(lane))` has all of them. numba compiles
    that as well as `range(count)`, and a range that a function returns 5 % slower."""
    if lane is None:
        return 0
    return lane


@called
def stride(lane: Any) -> Any:
    """How far apart the indices are that a lane works on."""
    if lane is None:
        return 1
    return 32


@called
def is_first(lane: Any) -> Any:
    """Whether a lane does what one does for all."""
    return True if lane is None else lane == 0


@called
def wait(lane: Any) -> None:
    """Wait until all lanes are here: what they wrote before is read from here on."""
    if lane is not None:
        barrier()
