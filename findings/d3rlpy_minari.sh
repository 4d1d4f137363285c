#!/usr/bin/env bash
# Guess: d3rlpy reads a Minari dataset episode by episode, so that in every episode observation k stands beside action k.
# Seen: Minari stores T + 1 observations and T actions an episode. get_minari joins all observations and all actions of
#   the dataset and cuts both by the T of each episode: the first episode is right, in the second every observation is
#   the one before that of its action, in the third the second before, and so on. Nothing is raised.
# Versions: d3rlpy 2.8.1, minari 0.5.3, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: offline training from Minari datasets of more than one episode that are loaded by get_minari.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 d3rlpy==2.8.1 'minari[hdf5]==0.5.3' pillow==12.0.0
export MINARI_DATASETS_PATH=$work/datasets PYTHONPATH=$work
cat > "$work/count.py" << 'END'
import gymnasium
import numpy as np


class Count(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)


gymnasium.register("Count-v0", "count:Count", max_episode_steps=4)
END
"$work/v/bin/python" - << 'END'
import sys

import count
import d3rlpy
import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

buffers = []
for n in range(3):
    seen = np.arange(100 * n, 100 * n + 5, dtype=np.float32)[:, None]  # five observations, four actions
    ends = {"terminations": [False, False, False, True], "truncations": [False] * 4}
    buffers.append(EpisodeBuffer(id=n, observations=seen, actions=seen[:-1].copy(), rewards=[1.0] * 4, infos={}, **ends))
told = {"algorithm_name": "a", "author": "a", "author_email": "a@example.org", "code_permalink": "https://example.org"}
minari.create_dataset_from_buffers("count/count-v0", buffer=buffers, env=gymnasium.make("count:Count-v0"), **told)
data, _ = d3rlpy.datasets.get_minari("count/count-v0")
rows = [(episode.observations.ravel().tolist(), episode.actions.ravel().tolist()) for episode in data.episodes]
for n, (seen, done) in enumerate(rows):
    print(f"episode {n}: observations {seen}, actions {done}")
holds = rows[0][0] == rows[0][1] and rows[1] == ([4.0, 100.0, 101.0, 102.0], [100.0, 101.0, 102.0, 103.0])
print("observations of later episodes are shifted:", holds)
sys.exit(not holds)
END
