"""Choose the form in which decisions run: numba loops, graphs of torch.compile, or eager mode."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from echelon.env.measurement import load_measurement
from echelon.runtime.device import can_compile
from echelon.runtime.device_loops import has_device_loops
from echelon.runtime.errors import require
from echelon.runtime.jit import loops_on
from echelon.runtime.limits import variable

Backend = Literal["auto", "loops", "graph", "eager"]
Form = Literal["loops", "graph", "eager"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
VARIABLE = "ECHELON_BACKEND"
"""Environment variable that replaces the backend `auto`."""


def form_of(device: torch.device, backend: Backend = "auto") -> Form:
    """Return the form in which the decisions of an environment run on a device.

    Args:
        device: device of the environment.
        backend: as in `EchelonEnv`.

    Raises:
        ConfigError: if the backend is `loops` and the device has no loops.
    """
    name, choice = "backend", backend
    if choice == "auto":
        name, choice = VARIABLE, variable(VARIABLE, BACKENDS)  # type: ignore[assignment]
    if choice == "auto":
        choice = "loops" if loops_on(device) or prefers_loops(device) else without_loops(device)
    if choice == "loops":
        runs = loops_on(device) if device.type == "cpu" else has_device_loops()
        needs = "numba" if device.type == "cpu" else "numba and numba-cuda: pip install 'echelon-marl[gpu]'"
        require(runs, name, f"auto, graph or eager on {device.type} (loops need {needs})", choice)
        return "loops"
    return "graph" if choice == "graph" and can_compile(device) else "eager"


def without_loops(device: torch.device) -> Literal["graph", "eager"]:
    """Return the form that the backend `auto` selects on devices where loops are missing or slower."""
    # Without numba, a CPU uses eager mode: it gives the same bits as the numba loops, and compiled graphs do not.
    return "eager" if device.type == "cpu" else "graph"


def prefers_loops(device: torch.device) -> bool:
    """Return whether a measurement on this machine found GPU loops faster than the dense form, with equal results."""
    if device.type == "cpu" or not has_device_loops():
        return False
    measurement = load_measurement(device)
    return measurement is not None and measurement.prefers_loops
