"""Compile the numba loops of a decision in a second process, so that the first battles need not wait for compilation.

The dense form of a decision (torch operations) and its loops give the same bits. Battles start in the dense form and
switch to the loops between two decisions, as soon as the compiled loops are on disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from pathlib import Path

from echelon.runtime.compile import logger
from echelon.runtime.limits import variable
from echelon.runtime.loop_cache import PACKAGE, cache_folder, is_cached

VARIABLE = "ECHELON_COMPILE"
"""Environment variable: `background` compiles in a second process, `wait` in this process before the first decision."""
LOOP = "decision_loop"
"""The loop that takes a minute to compile; all other loops take seconds in total."""
COMMAND = "from echelon.env.compile_loops import compile_loops; compile_loops()"


class CompileProcess:
    """A process that compiles the loops into this user's cache. The process ends by itself, even if its parent process
    has ended before.

    Args:
        folder: folder of the compiled loops, from `cache_folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.began, self.is_logged = time.perf_counter(), False
        # Start the process in the package's folder, so that no file in the caller's folder shadows a module.
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            cwd=PACKAGE.parent,
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder.parent.absolute()), VARIABLE: "wait"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def has_ended(self) -> bool:
        """Return whether the process has ended; log the result once. If compilation failed in that process, this
        process compiles the loops."""
        if self.process.poll() is None:
            return False
        if not self.is_logged:
            self.is_logged, seconds = True, time.perf_counter() - self.began
            if is_cached(LOOP):
                logger.info("compiled the simulation in %.0f s; battles continue in its loops", seconds)
            else:
                logger.warning("the simulation was not compiled in %.0f s, so this process compiles it", seconds)
        return True


@functools.cache
def compile_process() -> CompileProcess | None:
    """Return the process that compiles the loops, started at the first call; None if the loops are cached, or if this
    process compiles them.

    This process compiles the loops itself, before the first decision, if `ECHELON_COMPILE` is `wait`, the machine has
    one core, no cache folder is writable, or no process can be started.
    """
    folder = cache_folder()
    if is_cached(LOOP):
        return None
    if variable(VARIABLE, ("background", "wait")) == "background" and folder is not None and cores() > 1:
        with contextlib.suppress(OSError):
            process = CompileProcess(folder)
            logger.warning(
                "compiling the simulation for this processor, once, in a second process, which takes about a minute; "
                "until then battles run in the dense form, which is slower and gives the same bits"
            )
            return process
    announce_compile()
    return None


@functools.cache
def announce_compile() -> None:
    """Log once per process that the first decision compiles the loops."""
    if not is_cached(LOOP):
        logger.info("compiling the simulation for this processor, once, which takes about a minute")


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def loops_ready() -> bool:
    """Return whether loops can run now, without waiting for the other process."""
    process = compile_process()
    return process is None or process.has_ended()


def wait_for_loops() -> None:
    """Wait until the loops are compiled, or until this process has to compile them."""
    process = compile_process()
    if process is not None:
        process.process.wait()
        process.has_ended()
