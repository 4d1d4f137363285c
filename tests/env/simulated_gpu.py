"""A program: run battles in the GPU kernel as plain Python, and compare them with the dense form.

    NUMBA_DISABLE_JIT=1 python tests/env/simulated_gpu.py DECISIONS [--without BARRIER] WORD...

With the word `traced` among the features, a graph of `torch.compile` plays them.

The lanes of a warp run one after the other up to each barrier, in a different order each time. Every tensor of every
decision must have the same bits; otherwise a lane read a value too early or too late. To prove that such races are
found, `--without` removes one barrier of a decision. The square root of a float32 is a float64 in Python, so it is
rounded to float32 here, as the instructions of CPUs and GPUs do.
"""

from __future__ import annotations

import math
import sys

import numpy as np

exact_root = math.sqrt
math.sqrt = lambda x: np.float32(exact_root(x)) if isinstance(x, np.float32) else exact_root(x)

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import random  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402
from types import SimpleNamespace  # noqa: E402

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders import brawl  # noqa: E402

from echelon.env import decision  # noqa: E402
from echelon.env.env import EchelonEnv  # noqa: E402
from echelon.env.loops import on_device, play  # noqa: E402
from echelon.env.rehearsal import crowded, leaves  # noqa: E402
from echelon.rules.config import EnvConfig, FeaturesConfig, WorldConfig  # noqa: E402
from echelon.runtime import jit  # noqa: E402
from echelon.runtime.device_loops import DeviceRecords  # noqa: E402
from echelon.sim.loops import lanes  # noqa: E402

CPU = torch.device("cpu")


class Row(np.record):
    """A record whose fields precede NumPy's attributes of the same name, such as `size`; int32 adds up in int64."""

    def __getattribute__(self, name):
        get = super().__getattribute__
        if name not in (get("dtype").names or ()):
            return get(name)
        return int(self[name]) if isinstance(self[name], np.int32) else self[name]


def arrays(value):
    """Convert a kernel argument to NumPy arrays on the same memory."""
    if isinstance(value, tuple):
        return type(value)(*map(arrays, value)) if hasattr(value, "_fields") else tuple(map(arrays, value))
    if isinstance(value, DeviceRecords):
        octets = value.memory.numpy()[: value.kind.itemsize * math.prod(value.shape)]
        return octets.view(np.dtype((Row, value.kind))).reshape(value.shape)
    return value.numpy() if isinstance(value, torch.Tensor) else value


class Warp:
    """A block of threads that take turns: each runs until its next barrier, or its end.

    Args:
        count: number of lanes.
        without: index of the barrier to remove, counted from the start of the kernel; -1 keeps all.
    """

    def __init__(self, count, without=-1):
        self.without, self.place = without, threading.local()
        self.turns, self.turn_over = [threading.Semaphore(0) for _ in range(count)], threading.Semaphore(0)
        self.order = random.Random(0)
        # Attributes of `numba.cuda`.
        self.blockDim = SimpleNamespace(x=count)
        self.gridDim = SimpleNamespace(x=0)

    @property
    def blockIdx(self):
        return SimpleNamespace(x=self.place.block)

    @property
    def threadIdx(self):
        return SimpleNamespace(x=self.place.lane)

    def run_block(self, kernel, block, arguments):
        """Run a kernel in every lane of one block."""
        self.faults, self.ended = [], []
        threads = [
            threading.Thread(target=self._run_lane, args=(kernel, block, lane, arguments), daemon=True)
            for lane in range(self.blockDim.x)
        ]
        for thread in threads:
            thread.start()
        while len(self.ended) < len(threads):
            for lane in self.order.sample(range(len(threads)), len(threads)):
                self.turns[lane].release()
                self.turn_over.acquire()
            for fault in self.faults:
                raise fault
            assert len(self.ended) in (0, len(threads)), "not all lanes wait at a barrier"

    def _run_lane(self, kernel, block, lane, arguments):
        self.place.block, self.place.lane, self.place.barriers = block, lane, 0
        self.turns[lane].acquire()
        try:
            kernel(*arguments)
        except Exception as fault:
            self.faults.append(fault)
        self.ended.append(lane)
        self.turn_over.release()

    def barrier(self):
        """Wait for the other lanes."""
        self.place.barriers += 1
        if self.place.barriers - 1 != self.without:
            self.turn_over.release()
            self.turns[self.place.lane].acquire()

    def launch(self, kernel, blocks, threads, device, *arguments):
        """Replace `device_loops.launch`."""
        assert threads == self.blockDim.x
        self.gridDim.x = blocks
        for block in range(blocks):
            self.run_block(kernel, block, tuple(map(arrays, arguments)))


def compare(name, result, expected):
    """Assert that all bits are equal; return the number of tensors."""
    others = dict(leaves(expected))
    for leaf, value in leaves(result):
        assert value.dtype == others[leaf].dtype and value.shape == others[leaf].shape, (name, leaf)
        if value.numpy().tobytes() != others[leaf].numpy().tobytes():
            raise AssertionError(f"{name}: {leaf} differs: {(value != others[leaf]).nonzero()[:3].tolist()}")
    return len(others)


def traced(engine, loops):
    """Return a decision of the environment with these loops, compiled to one graph."""

    def decide(before, action):
        return engine.decide_in_loops(loops, before, action, None, None)

    return torch.compile(decide, fullgraph=True, dynamic=False, backend="aot_eager")


def main(decisions, without, words):
    switched_off = [word for word in words if word != "traced"]
    features = FeaturesConfig(**dict.fromkeys(switched_off, False))
    teams = {"blue": ("medium", "scout", "heavy"), "red": ("heavy", "light", "medium")}
    world = WorldConfig(32, 32, 10)
    config = dataclasses.replace(EnvConfig.small(), map_pool=1, world=world, features=features, **teams)
    env = EchelonEnv(config, 2, CPU, 3, backend="eager")
    env.restarts_by_row = False
    jit.shared = play.shared = torch.Tensor.detach
    warp = Warp(lanes.LANES, without)
    on_device.launch, on_device.cuda, lanes.barrier = warp.launch, warp, warp.barrier
    # A single block plays both battles, one after the other.
    on_device.BLOCKS, on_device.processors = 1, lambda device: 1
    loops, engine, dense = on_device.DeviceLoops(env.sim_model, env.engine.blocks, CPU), env.engine, env.engine.decide
    count = [0, 0]

    def called(before, action):
        state, streams = loops.play(before, action)
        return decision.judge_and_reward(before, state, streams, env.sim_model)

    play_one = traced(engine, loops) if "traced" in words else called

    def both(before, action, *others):
        one = play_one(before.clone(), action)
        other = dense(before, action, *others)
        if play_one is not called:
            # A graph rounds the operations of the reward differently.
            assert torch.allclose(one.reward_terms, other.reward_terms, atol=1e-6)
            one = dataclasses.replace(one, reward_terms=other.reward_terms)
        count[0] += compare("a decision", one, other)
        return other

    shown, generator = crowded(env), torch.Generator().manual_seed(1)
    one, other = (
        loops.observe(env.state.clone(), env.sim_model.maps),
        engine.initial_observation_dense(env.state.clone(), env.sim_model),
    )
    compare("the first look", {"state": one[0], **one[1]}, {"state": other[0], **other[1]})
    engine.decide = both
    fought = {}
    for _ in range(decisions):
        tally = env.state.tally
        shown = env.step_and_maybe_reset(brawl(shown, generator))[1]
        count[1] += int(shown["is_init"].sum())
        fought = {name: max(fought.get(name, 0), int(values.sum())) for name, values in tally.items()}
    print(f"{count[0]} tensors of {decisions} decisions equal, {count[1]} restarts; {fought}")
    assert count[1] > 0 and fought["hits"] > 0 and fought["kills"] > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("decisions", type=int)
    parser.add_argument("--without", type=int, default=-1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    main(options.decisions, options.without, options.words)
