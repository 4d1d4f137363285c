"""Battles are equal bit for bit on each processor, as far as one processor can simulate others.

Torch, vendor math libraries, numba and the C library choose their instructions at process start, by processor or by
environment variables.
"""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import processors
import pytest
import torch
from patience import STUCK_S
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from echelon.arena import fingerprint
from echelon.runtime import exact, jit

NO_FMA = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable"
PROCESSORS = {
    "AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "AVX2 torch": {"ATEN_CPU_CAPABILITY": "avx2"},
    "oldest": {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default", "GLIBC_TUNABLES": NO_FMA},
    "generic loops": {"NUMBA_CPU_NAME": "generic"},
}
"""Environment variables that make a process use the instructions of another processor."""
ROUNDED_ONCE = frozenset(
    re.findall(
        r"\w+",
        """
abs add amax amin ceil clamp clamp_max clamp_min cumsum div floor frexp maximum minimum mul neg round rsub rsqrt sub
""",
    )
)
"""Operations of torch on floats that IEEE 754 defines: results are exact or rounded once. On a GPU, division by a
Python number is not exact, and a scaled sum may be rounded once or twice."""
MOVES_OR_COMPARES = frozenset(
    re.findall(
        r"\w+",
        """
_to_copy _unsafe_view alias allclose any arange argmax as_strided cat clone constant_pad_nd copy_ detach empty
empty_like eq expand fill_ flip full full_like gather ge gt index index_copy index_put_ index_select isfinite isinf le
lift_fresh logical_not lt max min ne new_empty new_full new_ones new_zeros ones ones_like permute repeat reshape
scalar_tensor scatter select
slice split split_with_sizes squeeze stack t transpose unbind unfold unsqueeze view where zero_ zeros zeros_like
_local_scalar_dense repeat_interleave movedim
""",
    )
)


def is_tensor_or_power_of_two(divisor):
    if isinstance(divisor, torch.Tensor) and divisor.dim() > 0:
        return True
    return abs(math.frexp(float(divisor))[0]) == 0.5


class Operations(TorchDispatchMode):
    """Record operations on floats that are not copies, comparisons or rounded once."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        floats = [t for t in tree_leaves((args, result)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        scale = (kwargs or {}).get("alpha", 1)
        if name.startswith("echelon::") or not floats:
            return result
        if not self.allows(name.removeprefix("aten::"), args, floats) or scale not in (1, -1):
            self.found.add(f"{name} of {[str(t.dtype) for t in floats]}")
        return result

    def allows(self, name, args, floats):
        if name in ("div", "div_"):
            return args[0].dtype == torch.float64 or is_tensor_or_power_of_two(args[1])
        if name in ROUNDED_ONCE or name.removesuffix("_") in ROUNDED_ONCE or name in MOVES_OR_COMPARES:
            return True
        if name == "pow":
            return args[1] == 2
        if name == "bmm":
            return all(((t == 0) | (t == 1)).all() for t in args)
        # Only float64 on the grid of `exact.sum`.
        return name == "sum" and args[0].dtype == torch.float64 and bool((args[0] * 2**24 % 1 == 0).all())


def ask(length: str, threads: int = 1, size: int = 7, **environment: str) -> dict[str, list[str]]:
    """Run `processors.py` in a separate process; return its output."""
    asked = subprocess.run(
        [sys.executable, processors.__file__, length, str(threads), str(size)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        timeout=STUCK_S,
    )
    assert asked.returncode == 0, asked.stderr[-2000:]
    return json.loads(asked.stdout)


@pytest.fixture(scope="module")
def brief():
    return processors.hashes(processors.BRIEF, 7)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize(
    "name", [name if name == "oldest" else pytest.param(name, marks=pytest.mark.long) for name in PROCESSORS]
)
def test_other_processor_plays_same_battles(tmp_path, brief, name):
    own = {"NUMBA_CACHE_DIR": str(tmp_path)} if "NUMBA_CPU_NAME" in PROCESSORS[name] else {}
    assert ask("brief", **PROCESSORS[name], **own) == brief


@pytest.mark.long
def test_two_threads_play_the_same_battles(brief):
    assert ask("brief", threads=2) == brief


def test_single_battle_is_equal(brief):
    for name in ("small", "switches turned"):
        config, decisions, commanders = processors.BRIEF[name]
        assert fingerprint.play(config, [processors.SEEDS[4]], decisions, commanders) == brief[name][4:5]


def test_battle_without_loops_is_equal(monkeypatch):
    """The dense form, which a GPU runs."""
    config, _, commanders = processors.BRIEF["small"]
    looped = fingerprint.play(config, [1, 2], 6, commanders)
    monkeypatch.setattr(exact, "HAS_NUMBA", False)
    monkeypatch.setattr(jit, "HAS_LOOPS", False)
    assert fingerprint.play(config, [1, 2], 6, commanders) == looped


@pytest.mark.requirement("R16")
@pytest.mark.long
def test_whole_battles_are_equal(tmp_path):
    """Small and standard, commanders and random actions, to the clock."""
    here = ask("whole")
    for name, environment in PROCESSORS.items():
        assert ask("whole", NUMBA_CACHE_DIR=str(tmp_path / name), **environment) == here, name
    assert ask("whole", threads=2) == here
    assert ask("whole", size=1) == here


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("looped", [True, pytest.param(False, marks=pytest.mark.long)], ids=["loops", "dense"])
def test_battle_uses_correctly_rounded_operations(monkeypatch, looped):
    if not looped:
        monkeypatch.setattr(exact, "HAS_NUMBA", False)
        monkeypatch.setattr(jit, "HAS_LOOPS", False)
    with Operations() as operations:
        for config in (processors.SMALL, processors.TURNED):
            fingerprint.play(config, [1, 2], 2, processors.SCRIPTED)
    assert not operations.found


def test_different_battles_have_different_hashes(brief):
    every = [each for name in processors.BRIEF for each in brief[name]]
    assert len(set(every)) == len(every) == len(processors.BRIEF) * len(processors.SEEDS)
