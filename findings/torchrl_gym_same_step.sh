#!/usr/bin/env bash
# Guess: GymWrapper over a gymnasium vector that restarts by itself (AutoresetMode.SAME_STEP) never resets it again, so
#   every episode that the vector begins is played.
# Seen: where all environments end in the same step GymWrapper calls reset of the vector once more: the episodes that it
#   had just begun are thrown away, and every second one is played. Where they end at different times all are played.
# Versions: torchrl 0.14.1, gymnasium 1.4.0, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: environments of equal length, such as with a time limit: half of the resets are wasted, and the episodes of a
#   seed are others than in gymnasium. Nothing is raised.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 torchrl==0.14.1 gymnasium==1.4.0 numpy
"$work/v/bin/python" -W ignore - << 'END'
import sys

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torchrl.envs import GymWrapper


class Count(gymnasium.Env):
    """Observes the number of its episode, and ends after some steps."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length):
        self.length, self.episode = length, 0

    def reset(self, **_):
        self.episode, self.at = self.episode + 1, 0
        return np.array([self.episode], np.float32), {}

    def step(self, action):
        self.at += 1
        return np.array([self.episode], np.float32), 0.0, False, self.at >= self.length, {}


def played(lengths):
    """The numbers of the episodes of the first environment, from the first one played on."""
    makers = [lambda length=length: Count(length) for length in lengths]
    env = GymWrapper(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))
    seen = env.rollout(12, break_when_any_done=False)["observation"][0, :, 0].tolist()
    numbers = sorted(set(seen))
    return [int(number - numbers[0]) for number in numbers]


together, apart = played((3, 3)), played((3, 7))
print(f"episodes played: {together} where both end together, {apart} where they end apart")
sys.exit(not (together == [0, 2, 4, 6] and apart == [0, 1, 2, 3]))
END
