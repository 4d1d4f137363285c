"""Profiles one iteration of a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.learn.callbacks.base import Callback, Metrics
from echelon.runtime.files import check_writable
from echelon.runtime.profiling import profiled

if TYPE_CHECKING:
    from echelon.learn.trainer import Trainer

PROFILED = 3
"""Which iteration of the process is profiled, counted from 1; the first ones include compilation."""


class Profiler(Callback):
    """Writes the trace of iteration `PROFILED` into a file and prints its costliest parts, on the first process.

    It stands before the callbacks whose work after an iteration is not to be in the trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running = contextlib.ExitStack()
        self.begun = 0
        """Iterations that this process has begun."""

    def setup(self, trainer: Trainer) -> None:
        """Check that the file can be written."""
        if trainer.ranks.is_first:
            check_writable(self.path)

    def on_iteration_start(self, trainer: Trainer) -> None:
        """Start before iteration `PROFILED`."""
        self.begun += 1
        if trainer.ranks.is_first and self.begun == PROFILED:
            self.running.enter_context(profiled(self.path))

    def on_iteration_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Stop after it."""
        self.running.close()

    def on_run_end(self, trainer: Trainer) -> None:
        """Say so where the run was too short."""
        if self.begun < PROFILED:
            trainer.log_plain(f"no profile in {self.path}: this was no run of {PROFILED} iterations")

    def close(self) -> None:
        """Stop."""
        self.running.close()
