"""In which form a decision runs: as loops, as graphs of torch.compile, or operation by operation."""

from __future__ import annotations

from typing import Literal

import torch

from echelon.runtime.loop_cache import is_cached
from echelon.sim.kernels.dispatch import loops_on

Form = Literal["loops", "graph", "eager"]
Kernels = Literal["dense", "loops"]


def form_of(device: torch.device, compiled: bool | None, kernels: Kernels | None = None, watched: bool = False) -> Form:
    """The form of an environment on a device; arguments as in `EchelonEnv`. `watched`: somebody sees each substep."""
    if watched and loops_on(device):
        return "eager"
    if kernels == "loops" or (kernels is None and compiled is not False and loops_on(device)):
        return "loops"
    # Without numba, battles on a CPU stay what they are with it, which a graph's would not be.
    return "graph" if compiled or (compiled is None and device.type != "cpu") else "eager"


def needs_compilation(device: torch.device, compiled: bool | None) -> bool:
    """Whether the first environment of this machine will compile the loops of a decision, for about half a minute."""
    return form_of(device, compiled) == "loops" and not is_cached("decision_loop")
