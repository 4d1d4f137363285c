"""Compilation of functions, and the fallback without a compiler."""

import itertools
import logging
import os
import sysconfig
from pathlib import Path

import graphs
import pytest
import torch
from tensordict import TensorDict, is_tensorclass
from tiny_runs import TINY, tiny_run

from echelon.env.form import form_of
from echelon.learn.models.actor_critic import configure_policy
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.ppo.update import PPO
from echelon.runtime import compile, device, exact, fallback, jit
from echelon.runtime import terminal as console
from echelon.runtime.compile import CACHE, PROGRESS, fused, keep_graphs

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def reasons(monkeypatch):
    """Collect the fallback lines of this test."""
    monkeypatch.setattr(fallback, "REASONS", [])
    return fallback.REASONS


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("where", "compiler"), [(CPU, "a C++ compiler"), (GPU, "a C compiler")])
def test_missing_compiler_falls_back_with_one_line(monkeypatch, reasons, no_compiler, where, compiler):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(jit, "HAS_LOOPS", False)
    assert fused(len, where) is len and form_of(where, True) == "eager" == form_of(where, None)
    policy = TINY.build(PolicySpecs(8))
    configure_policy(policy, "fp32", "all", where)
    assert policy.act == policy.network.forward
    assert reasons == [f"{where.type} runs without torch.compile, which needs {compiler}"]


def test_missing_compiler_keeps_the_loss_uncompiled(reasons, no_compiler):
    ppo = PPO(TINY.build(PolicySpecs(8)), tiny_run().ppo, compiled=True)
    assert ppo.objective._compiled_call_impl is None and len(reasons) == 1


def test_missing_headers_and_triton_are_reported(monkeypatch, tmp_path, reasons):
    monkeypatch.setattr(device.shutil, "which", lambda name: name)
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    assert device.can_compile(CPU) and not device.can_compile(GPU) and reasons[0].endswith("needs Triton")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert device.compiling_lacks(GPU) == ["Python's headers", "Triton"]
    assert device.compiling_lacks(CPU) == ["Python's headers"]


def test_progress_lines_contain_name_and_count(monkeypatch, caplog):
    """A further graph of a function is logged as "again", and a cached graph is not logged."""
    graphs.trace_only(monkeypatch)
    monkeypatch.setattr(PROGRESS, "seconds", 0.0)
    monkeypatch.setattr(compile.time, "monotonic", itertools.count(100, 7).__next__)

    def double(x):
        return x + x

    def square(x):
        return x * x

    with caplog.at_level("INFO", compile.__name__):
        other, again = fused(square, CPU, name="the square"), fused(double, CPU)
        for function, size in ((fused(double, CPU), 2), (again, 2), (again, 3), (other, 2)):
            function(torch.ones(size))
        torch.compile(lambda x: x - 1, fullgraph=True)(torch.ones(2))
    double = double.__qualname__
    assert [record.getMessage() for record in caplog.records] == [
        f"compiling {double} (1 of at most 2), 0 s so far",
        f"compiled {double} in 7 s",
        f"compiling {double} again, 7 s so far",
        f"compiled {double} in 7 s",
        "compiling the square (2 of at most 2), 14 s so far",
        "compiled the square in 7 s",
    ]


def test_compiled_code_is_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(CACHE, "mine")
    keep_graphs()
    assert os.environ[CACHE] == "mine"
    monkeypatch.delenv(CACHE)
    keep_graphs()
    assert os.environ[CACHE] == str(tmp_path / "echelon" / "torchinductor") and Path(os.environ[CACHE]).is_dir()
    monkeypatch.delenv(CACHE)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep_graphs()
    assert CACHE not in os.environ, "torch's own"


def test_programs_print_the_progress_lines(monkeypatch, capsys):
    monkeypatch.setattr(compile, "logger", logging.Logger("of this test"))
    console.show_compilations()
    compile.logger.info("compiling")
    compile.logger.debug("no")
    console.show_compilations()
    assert capsys.readouterr().err == "compiling\n"
    assert len(compile.logger.handlers) == 1


@pytest.mark.long
def test_exact_graph_rounds_like_eager_mode():
    """The graph keeps the rounding to float32 between two float64 functions."""
    y, x = torch.randn(2, 100_000, generator=torch.Generator().manual_seed(0))

    def pitch(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return exact.divide(exact.atan2(y, x), torch.pi / 4)

    assert torch.equal(fused(pitch, CPU, exact=True)(y, x), pitch(y, x))


def test_new_tensorclasses_do_not_recompile(monkeypatch):
    """Each check whether a class is a tensorclass adds it to tensordict's cache."""

    class Asked:
        pass

    def total(battles: TensorDict) -> torch.Tensor:
        return battles.exclude("heat").set("sum", battles.get("hp") + battles.get("heat")).apply(torch.neg).get("sum")

    battles = TensorDict({"hp": torch.ones(3), "heat": torch.ones(3)}, 3)
    traced = graphs.trace_only(monkeypatch)
    sums = fused(total, CPU, name="sums")
    sums(battles)
    assert is_tensorclass(Asked) is False
    sums(battles)
    assert traced == ["sums"]
