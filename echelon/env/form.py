"""In which form a decision runs: as loops, as graphs of torch.compile, or operation by operation."""

from __future__ import annotations

import functools
from typing import Literal

import torch

from echelon.runtime.compile_progress import logger
from echelon.runtime.device import can_compile
from echelon.sim.kernels.dispatch import is_cached, loops_on

Form = Literal["loops", "graph", "eager"]
Kernels = Literal["dense", "loops"]


def form_of(device: torch.device, compiled: bool | None, kernels: Kernels | None = None, watched: bool = False) -> Form:
    """The form of an environment on a device; arguments as in `EchelonEnv`. `watched`: somebody sees each substep."""
    if watched and loops_on(device):
        return "eager"
    if kernels == "loops" or (kernels is None and compiled is not False and loops_on(device)):
        return "loops"
    # Without numba, battles on a CPU stay what they are with it, which a graph's would not be.
    is_graph = compiled or (compiled is None and device.type != "cpu")
    return "graph" if is_graph and can_compile(device) else "eager"


@functools.cache
def tell_compilation(form: Form) -> None:
    """Log, once a process, that the first environment of this machine compiles the loops of a decision."""
    if form == "loops" and not is_cached("decision_loop"):
        logger.info("compiling the simulation for this processor, once: about half a minute")
