"""Entry point of the process that `echelon.env.first_compile` starts to compile the numba loops."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from echelon.env.env import EchelonEnv
from echelon.env.first_compile import LOOP
from echelon.rules.config import EnvConfig
from echelon.runtime.loop_cache import cache_folder, is_cached


@contextlib.contextmanager
def one_compiler(folder: Path) -> Iterator[None]:
    """Hold a lock, so that only one process of this machine compiles into the folder."""
    with open(folder / "compiling.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compile_loops() -> None:
    """Compile the numba loops by playing one decision of one battle, unless the compiled loops are already cached."""
    folder = cache_folder()
    assert folder is not None, "the parent named a folder"
    with one_compiler(folder):
        if not is_cached(LOOP):
            EchelonEnv(EnvConfig.small(), num_envs=1, backend="loops").rollout(1)
