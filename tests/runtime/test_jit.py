"""Compilation and caching of loops, and battles without numba."""

import dataclasses
import importlib
import os
import subprocess
import sys
from numbers import Number
from pathlib import Path
from types import ModuleType

import pytest
import torch
from builders import brawl
from patience import STUCK_S

from echelon.env.env import EchelonEnv
from echelon.env.loops.decision import decision_loop
from echelon.rules.config import EnvConfig
from echelon.runtime import jit, loop_cache


@pytest.mark.long
def test_a_battle_without_loops_is_the_same_battle(monkeypatch):
    """Without numba the dense form runs, with the same bits."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    states = []
    for has_loops in (True, False):
        monkeypatch.setattr(jit, "HAS_LOOPS", has_loops)
        env, generator = EchelonEnv(config, 3, "cpu", seed=4), torch.Generator().manual_seed(1)
        td = env.reset()
        for _ in range(24):
            _, td = env.step_and_maybe_reset(brawl(td, generator))
        states.append(env.state.to_tensordict())
    assert (states[0]["tally", "hits"] > 0).any()
    same = states[0].apply(lambda one, other: (one == other).all(), states[1], batch_size=[])
    assert all(bool(value) for value in same.values(include_nested=True, leaves_only=True))


@pytest.mark.long
def test_battles_run_without_numba():
    program = """
import importlib.util, sys
sys.modules["numba"] = None
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numba" else found(name, *more)
import dataclasses
from echelon import EchelonEnv, EnvConfig
from echelon.runtime import jit
EchelonEnv(dataclasses.replace(EnvConfig.small(), map_pool=1), 1, "cpu", seed=1).rollout(2)
assert not jit.HAS_LOOPS and sys.modules["numba"] is None
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=STUCK_S)


MATHEMATICS = {
    *("ZERO", "HALF", "ONE", "INFINITY", "SMALL", "TOP_Z", "TWO_PI", "HALF_PI", "PI", "PER_PI", "PI_HIGH", "PI_LOW"),
    *("SQRT_HALF_BITS", "LOG_SQRT_2_PI", "PER_SQRT_2_PI", "ENTROPY_OF_ONE", "LOG_4"),
    *("TWO", "PER_LN_2", "LN_2_HIGH", "LN_2_LOW", "FARTHEST"),
    *("LN_2", "SQRT_HALF", "TO_GRID", "TO_WHOLE", "PER_BIT", "PER_TICK", "PER_STREAM", "PER_INDEX", "_MASK"),
}
"""Names of constants in files of `loop_cache.SOURCES` that belong to no rule and no catalog."""


def loop_functions():
    """Yield name and function of all loops that numba compiles."""
    for file in loop_cache.SOURCES:
        name = ".".join(("echelon", *file.relative_to(loop_cache.PACKAGE).with_suffix("").parts))
        for key, value in vars(importlib.import_module(name)).items():
            function = getattr(value, "py_func", None)
            if function is not None:
                yield f"{name}.{key}", function


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_loops_take_every_number_of_the_rules_as_an_argument():
    """A constant of another file would keep its old value in a cached loop."""
    refused, functions = {}, dict(loop_functions())
    for place, function in functions.items():
        named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
        found = {name for name, value in named.items() if isinstance(value, Number | ModuleType)}
        refused[place] = found - MATHEMATICS - {"np", "math"}
    assert len(functions) > 100
    assert {place: found for place, found in refused.items() if found} == {}


def test_the_cache_of_loops_follows_every_file_that_is_inlined(tmp_path):
    """numba checks only the file of a loop: an edit of `segments.py` must also recompile `decision_loop`."""
    files = [tmp_path / name for name in ("loop.py", "inlined.py")]
    for file in files:
        file.write_text("x = 16.0\n")
    before = loop_cache.hash_of(files)
    assert loop_cache.hash_of(files) == before
    files[1].write_text("x = 2020.0\n")
    assert loop_cache.hash_of(files) != before
    names = {str(path.relative_to(loop_cache.PACKAGE)) for path in loop_cache.SOURCES}
    assert {"sim/loops/segments.py", "env/loops/rows.py", "runtime/exact.py", "runtime/jit.py"} <= names


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_compiled_loops_have_their_own_folder():
    assert Path(decision_loop.stats.cache_path).is_relative_to(loop_cache.cache_folder())


def test_cached_loop_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_cache, "cache_folder", lambda: tmp_path / "loops")
    assert not loop_cache.is_cached("decision_loop")
    (tmp_path / "loops" / "loops_1").mkdir(parents=True)
    (tmp_path / "loops" / "loops_1" / "decision.decision_loop-99.py311.1.nbc").touch()
    assert loop_cache.is_cached("decision_loop")


@pytest.mark.long
def test_dense_form_runs_if_numba_cannot_compile():
    """With `NUMBA_DISABLE_JIT`, which debuggers set, one line is logged."""
    script = (
        "import echelon; env = echelon.EchelonEnv(echelon.EnvConfig.small(), 1, 'cpu', 0); env.rollout(1);"
        "assert env.form == 'eager', env.form"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "numba cannot compile, so battles run slower: NUMBA_DISABLE_JIT is set" in ran.stderr
