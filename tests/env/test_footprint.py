"""The estimated memory of battles matches the measured memory."""

import dataclasses
import subprocess
import sys

import pytest

from echelon.env.env import EchelonEnv
from echelon.env.footprint import footprint_of
from echelon.rules.config import ENV_PRESETS


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("preset", ENV_PRESETS)
def test_footprint_matches_an_environment(preset):
    config = dataclasses.replace(ENV_PRESETS[preset](), map_pool=2)
    env, each = EchelonEnv(config, 3, "cpu", 0), footprint_of(config)
    state = sum(leaf.nbytes for leaf in env.state.to_tensordict().values(True, True))
    seen = sum(leaf.nbytes for leaf in env.reset().values(True, True)) - 2 * 3  # two more flags of TorchRL's
    acts = sum(leaf.nbytes for leaf in env.action_spec.zero().values(True, True))
    assert each.ground == sum(leaf.nbytes for leaf in env.state.terrain.values()) // 3
    assert abs(each.ground + each.step - (state + seen + acts) / 3) < 16
    assert each.map == sum(leaf.nbytes for leaf in env.sim_model.maps.values()) // 2
    openings = env.map_pool.initial_observations.exclude("focus_slots").values()
    assert abs(each.opening - sum(leaf.nbytes for leaf in openings) / 2) <= each.opening * 0.1  # and contact mechs


PEAK = """
import dataclasses, os, resource, sys, torch
from echelon.env.env import EchelonEnv
from echelon.env.footprint import needed_bytes
from echelon.rules.config import ENV_PRESETS

def play(config, battles, backend):
    env = EchelonEnv(config, battles, "cpu", 0, backend=backend)
    seen = env.reset()
    for _ in range(3):
        for group in env.group_map:
            seen[group, "action"] = torch.rand_like(env.action_spec[group, "action"].zero())
        _, seen = env.step_and_maybe_reset(seen)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

for preset, battles, maps, backend in eval(sys.argv[1]):
    one = dataclasses.replace(ENV_PRESETS[preset](), map_pool=1)
    if os.fork() == 0:  # the peak memory is per process
        before, many = play(one, 2, backend), dataclasses.replace(one, map_pool=maps)
        print(preset, (play(many, battles, backend) - before) / needed_bytes(many, battles, torch.device("cpu")))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
PLAYED = [("small", 800, 1, "loops"), ("small", 500, 1, "eager"), ("small", 2, 384, "loops")]


@pytest.mark.requirement("R10")
@pytest.mark.long
def test_estimated_memory_matches_the_process():
    """The estimate is within a factor of two of the process's peak memory; allocators round up a little."""
    done = subprocess.run([sys.executable, "-c", PEAK, repr(PLAYED)], capture_output=True, text=True, check=True)
    ratios = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(ratios) == len(PLAYED) and all(0.5 < ratio < 2 for ratio in ratios), done.stdout
