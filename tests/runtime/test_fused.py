"""What is compiled, and what takes its place where nothing can be."""

import sysconfig

import pytest
import torch
from tiny_runs import TINY, tiny_run

from echelon.env.form import form_of
from echelon.learn.models.precision import configure_policy
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.ppo.update import PPO
from echelon.runtime import device, fallback
from echelon.runtime.compile import fused
from echelon.sim.kernels import dispatch

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def reasons(monkeypatch):
    """What fell back in this test."""
    monkeypatch.setattr(fallback, "REASONS", [])
    return fallback.REASONS


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("where", "compiler"), [(CPU, "a C++ compiler"), (GPU, "a C compiler")])
def test_without_a_compiler_nothing_is_compiled_and_one_line_says_so(
    monkeypatch, reasons, no_compiler, where, compiler
):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(dispatch, "HAS_LOOPS", False)
    assert fused(len, where) is len and form_of(where, True) == "eager" == form_of(where, None)
    policy = TINY.build(PolicySpecs(8))
    configure_policy(policy, "fp32", "all", where)
    assert policy.act == policy.network.forward
    assert reasons == [f"{where.type} runs without torch.compile, which needs {compiler}"]


def test_without_a_compiler_a_loss_is_not_compiled(reasons, no_compiler):
    ppo = PPO(TINY.build(PolicySpecs(8)), tiny_run().ppo, compiled=True)
    assert ppo.objective._compiled_call_impl is None and len(reasons) == 1


def test_headers_and_triton_are_asked_for_too(monkeypatch, tmp_path, reasons):
    monkeypatch.setattr(device.shutil, "which", lambda name: name)
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    assert device.can_compile(CPU) and not device.can_compile(GPU) and reasons[0].endswith("needs Triton")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert device.compiling_lacks(GPU) == ["Python's headers", "Triton"]
    assert device.compiling_lacks(CPU) == ["Python's headers"]


def test_kernels_of_triton_run_where_they_are_asked_for_alone(monkeypatch):
    monkeypatch.setattr(dispatch.importlib.util, "find_spec", lambda name: name)
    monkeypatch.delenv("ECHELON_TRITON", raising=False)
    assert not dispatch.wants_triton()
    monkeypatch.setenv("ECHELON_TRITON", "1")
    assert dispatch.wants_triton()
