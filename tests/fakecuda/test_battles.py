"""Battles on fake CUDA: environment, restart, new maps, arena, recorder, and gradients of custom functions."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from builders import flat_maps
from tiny_runs import TINY, short_battles

from echelon.agents.heuristic import Heuristic, scripted
from echelon.arena import batch_arena, until_done
from echelon.arena.batch_arena import BatchArena, Battle, MatchBatch
from echelon.arena.config import ArenaConfig
from echelon.env.env import EchelonEnv
from echelon.learn.models.distribution import ExpectedSlope
from echelon.learn.models.encoder import MaskedPool
from echelon.learn.models.lstm import LSTMUnroll
from echelon.learn.models.registry import PolicySpecs
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import cuda_graphs, jit
from fakecuda.fakes import CUDA, Fakes, left_on_the_host
from fakecuda.watch import Watch

pytestmark = pytest.mark.fakecuda

TORCHRL_CHECKS_A_RESET = "env/partial.py:_reset_proc_data"
"""TorchRL reads the flags that an explicit `reset` returns; it does not in a restart after a step."""


def silent(watch: Watch, *, reads: tuple[str, ...] = (), transfers: tuple[str, ...] = ()) -> None:
    """Assert that reads and copies occur only at the given places, and that no operation mixes devices."""
    assert not watch.mixes and watch.operations.total() > 0
    assert watch.reads.keys() <= set(reads) and watch.transfers.keys() <= set(transfers)


def fake_env(mode, config: EnvConfig, num_envs: int = 6, **settings) -> EchelonEnv:
    env = EchelonEnv(config, num_envs, device="cpu", seed=1, backend="eager", **settings)
    env.reset()
    Fakes(mode)(env)
    return env


@pytest.mark.parametrize("preset", ["small", "standard", "large"])
def test_step_and_restart_stay_on_device(mode, preset):
    env = fake_env(mode, dataclasses.replace(getattr(EnvConfig, preset)(), map_pool=2))
    with mode, Watch() as watch:
        now = env.reset()
        for group, names in env.group_map.items():
            width = env.action_spec[group, "action"].shape[-1]
            now.set((group, "action"), torch.zeros(env.num_envs, len(names), width, device=CUDA))
        reads = watch.reads.copy()
        played, after = env.step_and_maybe_reset(now)
        assert watch.reads == reads
        env.reset(after.select("done").rename_key_("done", "_reset"))
    silent(watch, reads=(TORCHRL_CHECKS_A_RESET,))
    leaves = [*played.values(True, True), *after.values(True, True)]
    assert {leaf.device for leaf in leaves} == {CUDA} and left_on_the_host(env, mode) == []


def test_map_renewal_runs_on_device(mode):
    env = fake_env(mode, dataclasses.replace(EnvConfig.small(), map_pool=3, map_spares=1))
    with mode, Watch() as watch:
        env.renew_maps()
    assert not watch.mixes
    assert watch.reads.total() + watch.transfers.total() > 0, "map renewal may read the host between iterations"
    assert left_on_the_host(env, mode) == []


def test_recorded_match_stays_on_device(mode, monkeypatch):
    monkeypatch.setattr(until_done, "DONE_CHECK_EVERY", 2)
    config = short_battles()
    made = {f"policy_{number}": TINY.build(PolicySpecs(config.comm_dim)).eval() for number in range(2)}
    commanders = {name: scripted(name, config, torch.device("cpu")) for name in ("heuristic:easy", "heuristic:expert")}
    every = {**made, **commanders}
    pairs = [("policy_0", "policy_1"), ("policy_1", "heuristic:easy"), ("heuristic:expert", "policy_0")]
    arena = BatchArena(config, every.__getitem__, ArenaConfig(torch.device("cpu"), precision="bf16"))
    arena.maps = flat_maps(config)
    recorder = Recorder([0, 2])
    batch = MatchBatch(arena, [Battle(*pair, seed) for seed, pair in enumerate(pairs)], recorder)
    Fakes(mode)(batch)
    with mode, torch.no_grad(), Watch() as watch:
        outcome = batch.play()
    allowed = ("arena/until_done.py:run_until_done", TORCHRL_CHECKS_A_RESET)
    once = ("to device: replay/recorder.py:opening", "to device: arena/fingerprint.py:multipliers")
    silent(watch, reads=allowed, transfers=once)
    assert watch.reads[allowed[0]] == 1, "the check whether all battles have ended, true in the second decision"
    assert watch.reads[TORCHRL_CHECKS_A_RESET] <= 3, "when the batch starts"
    assert outcome["winner"].device == CUDA and left_on_the_host(batch, mode) == []


def test_captured_match_stays_on_device(mode, monkeypatch):
    monkeypatch.setattr(until_done, "DONE_CHECK_EVERY", 2)
    monkeypatch.setattr(cuda_graphs, "has_graphs", lambda device: False)
    monkeypatch.setattr(batch_arena, "loops_on", lambda device: False)
    config = short_battles()
    every = {"policy": TINY.build(PolicySpecs(config.comm_dim)).eval(), "script": Heuristic(config, "expert")}
    arena = BatchArena(config, every.__getitem__, ArenaConfig(torch.device("cpu"), precision="bf16", cuda_graph=True))
    arena.maps = flat_maps(config)
    batch = MatchBatch(arena, [Battle("policy", "script", 1), Battle("script", "policy", 2)])
    Fakes(mode)(batch)
    with mode, torch.no_grad(), Watch() as watch:
        batch.play()
    allowed = ("arena/until_done.py:run_until_done", TORCHRL_CHECKS_A_RESET)
    silent(watch, reads=allowed, transfers=("to device: arena/fingerprint.py:multipliers",))
    assert left_on_the_host(batch, mode) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_backward_of_custom_functions_runs_on_device(mode, dtype):
    """Update tests replace autograd, so this test runs the backward passes."""

    def backward(kind, *inputs):
        context = SimpleNamespace(mark_non_differentiable=lambda *a: None, set_materialize_grads=lambda *a: None)
        context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
        if kind.setup_context is torch.autograd.Function.setup_context:
            outputs = kind.forward(context, *inputs)
        else:
            outputs = kind.forward(*inputs)
            kind.setup_context(context, inputs, outputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = kind.backward(context, *[torch.empty_like(output) for output in outputs])
        return found if isinstance(found, tuple) else (found,)

    def zeros(*shape, dtype=dtype):
        return torch.zeros(*shape, device=CUDA, dtype=dtype)

    with mode, Watch() as watch, torch.no_grad():
        found = [
            *backward(MaskedPool, zeros(80, 19, 64), zeros(80, 19, dtype=torch.bool)),
            *backward(ExpectedSlope, zeros(80, 26, dtype=torch.float32), zeros(80, 26, dtype=torch.float32)),
            *backward(
                LSTMUnroll, zeros(16, 80, 512), zeros(512, 128), zeros(80, 128), zeros(80, 128), zeros(16, 80, 1)
            ),
        ]
    silent(watch)
    assert {gradient.device for gradient in found if gradient is not None} == {CUDA}


def test_counted_bytes_match_known_bytes():
    script = Path(__file__).with_name("counted_bytes.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert set(told) == {"written", "merged", "read_before", "read_after", "row_written"}
    assert all(found.endswith(" right") for found in told.values()), done.stdout


@pytest.fixture(scope="module")
def counted():
    """Return the counts of `benchmarks/launches.py` by function, from the code that Inductor generates."""
    root = Path(__file__).parents[2]
    names = ["judge", "restart", *(["loops"] if jit.HAS_LOOPS else [])]
    command = [sys.executable, str(root / "benchmarks" / "launches.py"), "--functions", *names]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(line["num_envs"] == 16384 and line["preset"] == "standard" for line in lines)
    return {line["function"]: line for line in lines}


def test_restart_without_finished_battles_moves_few_bytes(counted):
    told = counted["restart"]
    assert 2 * 0.335 < told["GB"] < 1.2, "at least all memories of both teams once in and out"
    assert told["kernels"] <= 5


def test_outcome_and_rewards_need_few_launches(counted):
    assert 0 < counted["judge"]["kernels"] <= 7


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_environment_in_loops_needs_few_launches(counted):
    assert counted["loops"]["kernels"] == 1, "nothing is copied beside the kernel"
    assert counted["environment in loops"]["kernels"] <= 12
