"""Each system alone under pytest-benchmark, eager: `pytest benchmarks --benchmark-only [--device cuda]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from breakdown import systems
from measure import once

from echelon import EchelonEnv, EnvConfig

BATTLES = 32
Parts = dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]


@pytest.fixture(scope="module")
def parts(device: torch.device) -> Parts:
    env = EchelonEnv(EnvConfig.standard(), BATTLES, device=device, seed=0)
    env.rollout(3, break_when_any_done=False)
    return systems(env)


@pytest.mark.parametrize(
    "name",
    [
        *("draw", "timers", "hazards", "footing", "heat", "ams", "fly", "strike", "smoke", "chip", "apply", "fire"),
        *("wrecks", "move", "substep", "perceive", "contacts", "contact_slots", "squad", "ego", "local_map"),
        *("observation", "zone", "reward"),
    ],
)
def test_system(parts: Parts, device: torch.device, benchmark: Any, name: str) -> None:
    _, run, arguments = parts[name]
    with torch.no_grad():
        benchmark(once, lambda: run(*arguments), device)
