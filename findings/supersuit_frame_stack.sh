#!/usr/bin/env bash
# Guess: frame_stack returns the last frames, oldest first, on either axis, and a returned observation does not change.
# Seen: (1) with stack_dim=0 over pictures of two axes the newest frame is in all places but the last, and the last is
#   always zero: there is no history in it (three axes, or stack_dim=-1, are right). (2) Each agent's stack is one
#   array, changed in place: the observation of the step before becomes that of the step after.
# Versions: supersuit 3.11.0 (frame_stack_v1 and v2), pettingzoo 1.27.0, gymnasium 1.4.0, numpy 2.4.6, Python 3.11
#   (2026-11-30).
# Hurt: policies that see maps channels first, without memory; and replay buffers of PettingZoo environments that keep
#   (observation, next observation): both are the same array.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q supersuit==3.11.0 pettingzoo==1.27.0 gymnasium==1.4.0 numpy==2.4.6
"$work/v/bin/python" -W ignore - << 'END'
import sys

import numpy as np
import supersuit
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Clock(ParallelEnv):
    metadata = {"name": "clock"}
    possible_agents = ["a"]

    def __init__(self, shape):
        self.shape = shape

    def observation_space(self, agent):
        return spaces.Box(0, 100, self.shape, np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.time = ["a"], 1
        return {"a": np.full(self.shape, 1, np.float32)}, {"a": {}}

    def step(self, actions):
        self.time += 1
        no = {"a": False}
        return {"a": np.full(self.shape, self.time, np.float32)}, {"a": 0.0}, no, no, {"a": {}}


def stacked(stack, shape, axis):
    """The frames of the fourth observation, and of the third as it was and as it is after the fourth."""
    env = getattr(supersuit, stack)(Clock(shape), 3, axis)
    env.reset()
    for _ in range(2):
        third = env.step({"a": 0})[0]["a"]
    before = third.copy()
    fourth = env.step({"a": 0})[0]["a"]
    frames = [array.reshape(3, -1) if axis == 0 else array.reshape(-1, 3).T for array in (fourth, before, third)]
    return [array[:, 0].tolist() for array in frames]


holds = True
for stack in ("frame_stack_v1", "frame_stack_v2"):
    for shape, axis in (((2, 2), -1), ((2, 2), 0), ((1, 2, 2), 0)):
        fourth, before, after = stacked(stack, shape, axis)
        print(f"{stack}, {shape}, axis {axis}: fourth {fourth}; the third was {before} and is now {after}")
        lost = len(shape) == 2 and axis == 0
        holds &= fourth == ([4, 4, 0] if lost else [2, 3, 4]) and after == fourth != before
print("stacks of two axes on axis 0 have no history, and stacks change in place:", holds)
sys.exit(not holds)
END
