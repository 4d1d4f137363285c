#!/usr/bin/env bash
# Guess: PettingZooWrapper takes a mask of actions from the observation or from the infos, so also where both have it.
# Seen: with `action_mask` in both, as one environment may offer it to clients of either habit, reset ends in
#   "TypeError: 'NoneType' object does not support item assignment": the mask is taken out of the spec of the infos, and
#   of the two values that of the observation alone is removed.
# Versions: torchrl 0.14.1, pettingzoo 1.27.0, gymnasium 1.4.0, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: authors of environments for both PettingZoo's convention (observation) and AgileRL's (infos).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 torchrl==0.14.1 gymnasium==1.4.0 pettingzoo==1.27.0 numpy
"$work/v/bin/python" -W ignore - << 'END'
import sys

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from torchrl.envs import PettingZooWrapper

MASK = np.array([1, 1, 0], np.int8)
INNER = {"observation": spaces.Box(0, 1, (1,), np.float32), "action_mask": spaces.Box(0, 1, (3,), np.int8)}


class Masked(ParallelEnv):
    metadata = {"name": "masked"}
    possible_agents = ["a", "b"]

    def __init__(self, in_infos):
        self.in_infos = in_infos

    def observation_space(self, agent):
        return spaces.Dict(INNER)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def told(self):
        seen = {name: {"observation": np.zeros(1, np.float32), "action_mask": MASK} for name in self.agents}
        return seen, {name: {"n": 0, **({"action_mask": MASK} if self.in_infos else {})} for name in self.agents}

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self.told()

    def step(self, actions):
        seen, infos = self.told()
        flags = dict.fromkeys(self.agents, False)
        return seen, dict.fromkeys(self.agents, 0.0), flags, flags, infos


def works(in_infos):
    try:
        PettingZooWrapper(Masked(in_infos)).rollout(2)
    except TypeError as error:
        return str(error)
    return "works"


alone, both = works(False), works(True)
print(f"a mask in the observation: {alone}; in the infos too: {both}")
sys.exit(not (alone == "works" and "NoneType" in both))
END
