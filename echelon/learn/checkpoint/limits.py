"""How long the files of a checkpoint may be, by what its claims say that they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from echelon.rules.config import EnvConfig
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.errors import shown
from echelon.runtime.files import MAX_HEADER_BYTES, FileError

MAX_RUN_BYTES = 16 << 30
"""Of any file."""
ADAM = 3
"""Weights, and their first and second moments, in weights."""
OTHERS_BYTES = 32 << 20
"""Of what callbacks keep, and of the users' own components."""
POLICIES_A_BLOCK = 64
"""Frozen policies that a block of battles may keep at hand."""
MECH_BYTES, MECH_PAIR_BYTES, COLUMN_BYTES = 16 << 10, 64, 64
"""Of a mech's state and observations, of what is kept of each pair of mechs, and of a column of voxels that broke: each
about four times as much as is written."""


def most_learner_bytes(weights: int) -> int:
    """Bytes of the optimiser's state."""
    return MAX_HEADER_BYTES + ADAM * weights


def most_run_bytes(claims: Mapping[str, Any], env: EnvConfig, weights: int) -> int:
    """Bytes of the resume state of one process: its battles, the policies that it meets, and what callbacks keep."""
    memory = sum(math.prod(claimed_shape(name, shape)) for name, shape in claims["memory"].items())
    mech = MECH_BYTES + 4 * (memory + 8 * env.comm_dim)
    ground = COLUMN_BYTES * env.world.size_x * env.world.size_y
    battle = env.num_mechs * (mech + MECH_PAIR_BYTES * env.num_mechs) + ground
    maps = 64 * (env.map_pool + env.map_spares)
    policies = count(claims, "past_kept") + POLICIES_A_BLOCK * (count(claims, "past_blocks") + 1)
    found = MAX_HEADER_BYTES + OTHERS_BYTES + count(claims, "num_envs") * battle + maps + policies * weights
    return min(found, MAX_RUN_BYTES)


def count(claims: Mapping[str, Any], name: str) -> int:
    """A number among the settings of a run; 0 where it names none."""
    value = claims["settings"].get(name, 0)
    if type(value) is not int or not 0 <= value <= MOST_BATTLES:
        raise FileError(f"checkpoint.json: settings.{name} must be 0..{MOST_BATTLES}, got {shown(value)}")
    return value


def claimed_shape(name: str, shape: Any) -> tuple[int, ...]:
    """The shape of a part of a policy's memory."""
    fits = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n <= MOST_BATTLES for n in shape)
    if not fits:
        raise FileError(f"checkpoint.json: memory.{name} must be a shape, got {shown(shape)}")
    return tuple(shape)
