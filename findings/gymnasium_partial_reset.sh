#!/usr/bin/env bash
# Guess: RecordEpisodeStatistics over vector environments counts the length and return of each episode, in each of the
#   three autoreset modes.
# Seen: with AutoresetMode.DISABLED, resetting the finished environments by options={"reset_mask": ...} starts the count
#   of all of them anew: beside episodes of 3 steps, those of 4 are recorded as 1, 2 and 3. The vector environment takes
#   reset_mask out of the caller's dict before the wrapper looks for it.
# Versions: gymnasium 1.4.0 (SyncVectorEnv and AsyncVectorEnv), numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: trainings that reset by mask: the curve of returns is of cut episodes, lower the more environments there are.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q gymnasium==1.4.0 numpy==2.4.6
cat > "$work/partial.py" << 'END'
import sys

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics


class Fixed(gymnasium.Env):
    """Episodes of a fixed length with a reward of one a step."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 1.0, self.time == self.length, False, {}


def lengths(kind, mode):
    """The recorded lengths of the episodes of the two environments, over fourteen steps."""
    envs = RecordEpisodeStatistics(kind([lambda: Fixed(3), lambda: Fixed(4)], autoreset_mode=mode))
    envs.reset(seed=0)
    recorded = ([], [])
    for _ in range(14):
        *_, ended, _, infos = envs.step(np.zeros(2, int))
        for n in np.flatnonzero(infos.get("_episode", [])):
            recorded[n].append(int(infos["episode"]["l"][n]))
        if mode == AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended})
    envs.close()
    return recorded


if __name__ == "__main__":
    holds = True
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        for mode in AutoresetMode:
            recorded = lengths(kind, mode)
            print(kind.__name__, mode.name, *recorded)
            right = set(recorded[0]) == {3} and set(recorded[1]) == {4}
            holds &= right != (mode == AutoresetMode.DISABLED)
    print("a reset by mask cuts the episodes that go on:", holds)
    sys.exit(not holds)
END
"$work/v/bin/python" -W ignore "$work/partial.py"
