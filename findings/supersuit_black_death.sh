#!/usr/bin/env bash
# Guess: black_death_v3 tells the end of an episode in the step in which all agents are terminated, or all truncated.
# Seen: it asks that every agent be terminated AND truncated. So the last step, with its rewards, says that the episode
#   goes on, and a further step is needed: of zero observations, zero rewards and no infos, in which all agents are
#   terminated and truncated at once, whether the game was won or its time was up.
# Versions: supersuit 3.11.0, pettingzoo 1.27.0, gymnasium 1.4.0, numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: trainings in games where agents die: each episode has a made-up last transition, a time limit is a termination,
#   and the last infos lack the result (the winner) that the last step had.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q supersuit==3.11.0 pettingzoo==1.27.0 gymnasium==1.4.0 numpy==2.4.6
"$work/v/bin/python" -W ignore - << 'END'
import sys

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from supersuit import black_death_v3


class Duel(ParallelEnv):
    """Agent a dies in step 2; in step 3 agent b wins, or the time is up."""

    metadata = {"name": "duel"}
    possible_agents = ["a", "b"]

    def __init__(self, end):
        self.end = end

    def observation_space(self, agent):
        return spaces.Box(0, 10, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        return {name: np.ones(1, np.float32) for name in self.agents}, {name: {} for name in self.agents}

    def step(self, actions):
        self.time += 1
        seen = {name: np.ones(1, np.float32) for name in self.agents}
        last = self.time == 3
        won = {name: (self.time == 2 and name == "a") or (last and self.end == "won") for name in seen}
        late = {name: last and self.end == "time is up" for name in seen}
        infos = {name: {"end": self.end} if last else {} for name in seen}
        self.agents = [name for name in seen if not (won[name] or late[name])]
        return seen, dict.fromkeys(seen, 1.0), won, late, infos


holds = True
for end in ("won", "time is up"):
    plain, env = Duel(end), black_death_v3(Duel(end))
    plain.reset(), env.reset()
    for _ in range(3):
        _, _, won, late, _ = plain.step(dict.fromkeys(plain.agents, 0))
    truth = (won["b"], late["b"])
    steps = []
    while env.agents:
        _, rewards, terminated, truncated, infos = env.step(dict.fromkeys(env.agents, 0))
        steps.append((rewards["b"], bool(terminated["b"]), bool(truncated["b"]), infos["b"]))
    print(f"{end}: of the game {truth} after 3 steps; through black_death {steps[2:]} in steps 3 to {len(steps)}")
    holds &= steps[2:] == [(1.0, False, False, {"end": end}), (0.0, True, True, {})]
print("the end is told a step late, and as both terminated and truncated:", holds)
sys.exit(not holds)
END
