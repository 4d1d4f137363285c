#!/usr/bin/env bash
# Guess: combine_datasets of two filtered datasets has the episodes that the filters left.
# Seen: it copies the storage behind each dataset, so all episodes come back, filtered or not; what a filtered dataset
#   shows by itself (length, total_steps, split_dataset) is right, and nothing warns.
# Versions: minari 0.5.4, gymnasium 1.4.0, h5py 3.16.0, numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: imitation from "won battles only": the combined dataset of the best episodes of several runs has the lost ones.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q minari==0.5.4 gymnasium==1.4.0 h5py==3.16.0 numpy==2.4.6 pillow==12.3.0
export MINARI_DATASETS_PATH=$work/datasets PYTHONPATH=$work
cat > "$work/count.py" << 'END'
import gymnasium
import numpy as np


class Count(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)


gymnasium.register("Count-v0", "count:Count", max_episode_steps=4)
END
"$work/v/bin/python" -W ignore - << 'END'
import sys

import count
import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer


def dataset(name, returns):
    """One episode of two steps for each return."""
    buffers = []
    for n, value in enumerate(returns):
        arrays = {"observations": np.zeros((3, 1), np.float32), "actions": np.zeros((2, 1), np.float32)}
        ends = {"terminations": [False, True], "truncations": [False, False]}
        buffers.append(EpisodeBuffer(id=n, rewards=[0.0, value], infos={}, **arrays, **ends))
    told = {"algorithm_name": "a", "author": "a", "author_email": "a@example.org"}
    told["code_permalink"] = "https://example.org"
    return minari.create_dataset_from_buffers(name, buffer=buffers, env=gymnasium.make("Count-v0"), **told)


def returns(data):
    return [float(episode.rewards.sum()) for episode in data]


won = [
    dataset(f"count/{name}-v0", values).filter_episodes(lambda episode: episode.rewards.sum() > 0)
    for name, values in (("first", (1.0, -1.0, -1.0)), ("second", (-1.0, 1.0)))
]
print("filtered:", [returns(data) for data in won], "steps", [int(data.total_steps) for data in won])
both = minari.combine_datasets(won, "count/won-v0")
print("combined:", returns(both), "steps", int(both.total_steps))
holds = [returns(data) for data in won] == [[1.0], [1.0]] and returns(both) == [1.0, -1.0, -1.0, -1.0, 1.0]
print("combine_datasets brings back the episodes that were filtered out:", holds)
sys.exit(not holds)
END
