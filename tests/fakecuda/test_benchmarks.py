"""Cases of pytest-benchmark on fake CUDA: with `--device cuda` all timed work is on the device."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fakecuda.fakes import Fakes, left_on_the_host
from fakecuda.watch import Watch

pytestmark = pytest.mark.fakecuda
CPU = torch.device("cpu")


@pytest.fixture
def benchmarks(monkeypatch):
    """The modules `cases`, of few battles and decisions, and `breakdown` of the benchmarks."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import breakdown
    import cases

    monkeypatch.setattr(cases, "BATTLES", 8)
    monkeypatch.setattr(cases, "DECISIONS", 2)
    return cases, breakdown


def parameters_of(part) -> list[nn.Parameter]:
    """Return the parameters of a memory, or of a trainer's policy."""
    module = getattr(part, "policy", part)
    return list(module.parameters()) if isinstance(module, nn.Module) else []


@pytest.mark.requirement("R40")
@pytest.mark.parametrize("name", ["environment", "rollout", "update", "chunk_in_one_call", "chunk_by_steps"])
def test_benchmark_case_is_entirely_on_device(mode, gradients, tmp_path, benchmarks, name):
    cases, _ = benchmarks
    eager = {"backend": "eager"} if name in ("environment", "rollout", "update") else {}
    case = cases.CASES[name](CPU, tmp_path, **eager)
    Fakes(mode)(case.parts)
    gradients(parameters_of(case.parts[0]))
    with mode, Watch() as watch:
        case()
    assert not watch.mixes and not watch.reads and watch.operations.total() > 0
    assert left_on_the_host(case.parts, mode) == []


def test_benchmarked_systems_are_entirely_on_device(mode, benchmarks):
    cases, breakdown = benchmarks
    env = cases.environment(CPU, Path(), backend="eager").parts[0]
    parts, fakes = breakdown.systems(env), Fakes(mode)
    moved = [(run, fakes(arguments)) for _, run, arguments in parts.values()]
    with mode, torch.no_grad(), Watch() as watch:
        for run, arguments in moved:
            run(*arguments)
    assert not watch.mixes and not watch.reads and len(parts) == 24
    assert left_on_the_host([arguments for _, arguments in moved], mode) == []
