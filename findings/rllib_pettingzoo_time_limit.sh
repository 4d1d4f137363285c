#!/usr/bin/env bash
# Guess: a PettingZoo environment that truncates all its agents at a time limit is truncated in RLlib, by RLlib's own
#   ParallelPettingZooEnv, and so the value of the last observation is bootstrapped.
# Seen: MultiAgentEpisode is terminated too, and so is every agent's episode: where each agent is told that it is done,
#   the episode counts as terminated, whatever ended it. Of truncated and terminated the latter wins: no bootstrap.
# Versions: ray 2.60.0, pettingzoo 1.27.0, gymnasium 1.2.2, Python 3.11 (2026-11-30).
# Hurt: every PettingZoo environment with a time limit: its values are learnt as if the world ended there. Not raised.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q 'ray[rllib]==2.60.0' pettingzoo==1.27.0
"$work/v/bin/python" -W ignore - << 'END'
import sys

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv


class Limited(ParallelEnv):
    """Two agents, truncated in the third step."""

    metadata = {"name": "limited"}
    possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents, self.at = list(self.possible_agents), 0
        return {name: np.zeros(1, np.float32) for name in self.agents}, {name: {} for name in self.agents}

    def step(self, actions):
        self.at += 1
        names, over = self.agents, self.at >= 3
        self.agents = [] if over else names
        seen = {name: np.zeros(1, np.float32) for name in names}
        return seen, dict.fromkeys(names, 1.0), dict.fromkeys(names, False), dict.fromkeys(names, over), {n: {} for n in names}


env, episode = ParallelPettingZooEnv(Limited()), MultiAgentEpisode()
observations, infos = env.reset()
episode.add_env_reset(observations=observations, infos=infos)
while not episode.is_done:
    actions = {name: np.zeros(1, np.float32) for name in observations}
    observations, rewards, terminated, truncated, infos = env.step(actions)
    told = dict(terminated)
    episode.add_env_step(observations, actions, rewards, infos, terminateds=terminated, truncateds=truncated)
flags = {name: (own.is_terminated, own.is_truncated) for name, own in episode.agent_episodes.items()}
print(f"the environment terminates {told}; RLlib's (terminated, truncated): {flags}")
sys.exit(not (not any(told.values()) and all(own == (True, True) for own in flags.values())))
END
