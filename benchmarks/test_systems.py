"""Every system by itself under pytest-benchmark, eager: `pytest benchmarks --benchmark-enable`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from breakdown import systems

from echelon import EchelonEnv, EnvConfig

BATTLES = 32
Parts = dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]


@pytest.fixture(scope="module")
def parts() -> Parts:
    env = EchelonEnv(EnvConfig.standard(), BATTLES, device="cpu", seed=0)
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
def test_system(parts: Parts, benchmark: Any, name: str) -> None:
    _, run, arguments = parts[name]
    with torch.no_grad():
        benchmark(run, *arguments)
