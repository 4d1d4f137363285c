"""Compiles the loops of a decision in a second process, so that the first battles need not wait for them.

Both forms of a decision give the same bits, so battles begin in the dense form and change over to the loops between two
decisions, as soon as these are on disk.
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
"""Environment variable: `background` compiles in a second process, `wait` in this one before the first decision."""
LOOP = "decision_loop"
"""The loop that takes a minute to compile; the others take seconds in all."""
COMMAND = "from echelon.env.compile_loops import compile_loops; compile_loops()"


class CompileProcess:
    """A process that compiles the loops into this user's cache. It ends by itself, also when its parent is gone.

    Args:
        folder: the folder of compiled loops, as of `cache_folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.began, self.is_logged = time.perf_counter(), False
        # In the folder of the package, so that no file of the caller's folder is imported in place of a module.
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            cwd=PACKAGE.parent,
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder.parent.absolute()), VARIABLE: "wait"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def has_ended(self) -> bool:
        """Whether the loops can be loaded, or this process must compile them itself. Logs it once."""
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
    """The process that compiles the loops, started at the first call; None if they are cached, or this process has to.

    This process compiles them, before the first decision, if `ECHELON_COMPILE` is `wait`, the machine has one core, no
    folder can be written to, or no process can be started.
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
    """Log, once a process, that its first decision compiles the loops."""
    if not is_cached(LOOP):
        logger.info("compiling the simulation for this processor, once, which takes about a minute")


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def loops_ready() -> bool:
    """Whether loops can run now without this process waiting for their compilation by another one."""
    process = compile_process()
    return process is None or process.has_ended()


def wait_for_loops() -> None:
    """Return when the loops are compiled, or this process has to compile them."""
    process = compile_process()
    if process is not None:
        process.process.wait()
        process.has_ended()
