"""GPU loops without a GPU: their kernel in plain Python, and the output of NVIDIA's compilers."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from patience import STUCK_S

from echelon.env import form, rehearsal
from echelon.env.env import EchelonEnv
from echelon.env.form import form_of
from echelon.env.loops.play import Loops
from echelon.env.rehearsal import rehearse
from echelon.rules.config import EnvConfig
from echelon.runtime import jit
from echelon.runtime.device_loops import DeviceRecords, empty_device_records, has_device_loops, to_device, words
from echelon.runtime.errors import ConfigError
from echelon.sim.loops import lanes

GPU, CPU = torch.device("cuda"), torch.device("cpu")
HERE = Path(__file__).parent
runs = pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
compiles = pytest.mark.skipif(not has_device_loops(), reason="numba-cuda is not here: the extra gpu")
PAIR = np.dtype([("a", np.float32, 3), ("b", np.int64)], align=True)


def run(program, *words, **variables):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / program, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=STUCK_S,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_loops_on_a_gpu_without_numba_cuda_raise_one_line(monkeypatch):
    monkeypatch.setattr(form, "has_device_loops", lambda: False)
    with pytest.raises(ConfigError) as refusal:
        form_of(GPU, "loops")
    assert str(refusal.value) == (
        "backend must be auto, graph or eager on cuda (loops need numba and numba-cuda: pip install "
        "'echelon-marl[gpu]'), got 'loops'"
    )


def test_array_argument_matches_numbas_layout():
    values = torch.arange(24, dtype=torch.float32).view(2, 3, 4)
    assert list(words((7, values))) == [7, 0, 0, 24, 4, values.data_ptr(), 2, 3, 4, 48, 16, 4]
    empty = torch.empty((5, 0), dtype=torch.int64)
    assert list(words(empty))[:5] == [0, 0, 0, 8, empty.data_ptr()] and list(words(empty))[5:7] == [5, 0]


def test_lane_stride_is_the_number_of_lanes():
    assert getattr(lanes.stride, "py_func", lanes.stride)(0) == lanes.LANES


def test_records_start_with_zeros_and_match_numbas_layout():
    records = empty_device_records(PAIR, (2, 2), CPU)
    assert not records.memory.any() and records.memory.numel() == 4 * PAIR.itemsize
    item = PAIR.itemsize
    assert list(words(records)) == [0, 0, 4, item, records.memory.data_ptr(), 2, 2, 2 * item, item]


def test_constants_keep_their_bytes():
    table = np.zeros(2, PAIR)
    table["a"], table["b"] = 1.5, -3
    records = to_device(table, CPU)
    assert isinstance(records, DeviceRecords) and (records.kind, records.shape) == (PAIR, (2,))
    assert records.memory.numpy().tobytes() == table.tobytes()


@runs
def test_differing_loops_are_replaced_before_training(monkeypatch, caplog):
    """Run the rehearsal for a GPU, with CPU loops in place of GPU loops."""
    monkeypatch.setattr(rehearsal, "DECISIONS", 2)
    config = dataclasses.replace(EnvConfig.small(), map_pool=1, blue=("medium", "scout"), red=("heavy", "light"))
    env = EchelonEnv(config, 2, CPU, 1, backend="loops")
    assert "loops" in rehearse(env).line and env.form == "loops"
    decide = Loops.decide

    def fault(*arguments):
        result = decide(*arguments)
        mechs = result.state.mechs.replace(heat=result.state.mechs.heat + 0.01)
        return dataclasses.replace(result, state=result.state.replace(mechs=mechs))

    monkeypatch.setattr(Loops, "decide", fault)
    rehearse(env)
    assert env.form == "eager" and "loops differs in" in caplog.text and env.engine.loops is None


@runs
@pytest.mark.long
@pytest.mark.parametrize("off", [(), ("destruction", "smoke"), ("ewar", "comms"), ("target_preference",)], ids=str)
def test_simulated_kernels_equal_the_dense_form(off):
    """Compare every tensor of every decision, through deaths and restarts, bit for bit, for any order of lanes."""
    output = run("simulated_gpu.py", "12", *off, NUMBA_DISABLE_JIT="1")
    assert re.search(r"^\d{3,} tensors of 12 decisions equal, [1-9]\d* restarts", output, re.MULTILINE), output


@runs
@pytest.mark.long
@pytest.mark.parametrize("barrier", ["5", "7", "8"])
def test_missing_barrier_is_detected(barrier):
    """Random lane orders detect races: in shots, and in focus targets."""
    with pytest.raises(AssertionError, match=r"a decision: state.* differs"):
        run("simulated_gpu.py", "2", "--without", barrier, NUMBA_DISABLE_JIT="1")


@runs
@pytest.mark.long
def test_user_graph_contains_loops_as_one_operator():
    """Run `torch.compile(fullgraph=True)` on a decision with GPU loops."""
    output = run("simulated_gpu.py", "8", "traced", NUMBA_DISABLE_JIT="1")
    assert re.search(r"^\d{3,} tensors of 8 decisions equal, [1-9]\d* restarts", output), output


@compiles
@pytest.mark.long
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (12, 0)], ids=str)
def test_kernels_round_like_a_cpu(capability):
    """NVIDIA's compiler fuses nothing in a decision: each float operation is rounded to nearest."""
    output = run("kernel_of_gpu.py", *map(str, capability))
    report = dict(line.split(": ", 1) for line in output.splitlines())
    operations = report["operations"].split()
    arithmetic = {name for name in operations if name.split(".")[0] not in ("setp", "selp", "ld", "st", "mov", "cvt")}
    assert {"add.rn.f32", "mul.rn.f32", "div.rn.f32", "sqrt.rn.f32", "add.rn.f64", "mul.rn.f64"} <= arithmetic
    exact = re.compile(r"(add|sub|mul|div|sqrt)\.rn\.f(32|64)|(neg|abs)\.f(32|64)")
    assert {name for name in arithmetic if not exact.fullmatch(name)} == set()
    # Each argument is one word, in the order of `words`.
    assert report["parameters"] == report["words"] and report["kinds"] == "u64"
    assert int(report["bytes of machine code"]) > 50_000
