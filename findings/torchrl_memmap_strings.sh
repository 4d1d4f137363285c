#!/usr/bin/env bash
# Guess: a replay buffer returns the strings of its rows (the map of a battle) from each kind of storage.
# Seen: LazyMemmapStorage returns the first string ever written for every row, after extend and after add, while the
#   tensors of the rows are right. LazyTensorStorage and ListStorage return each row's own. There is no error and no
#   warning.
# Versions: torchrl 0.14.1, tensordict 0.14.3, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: buffers on disk that carry strings: results by map, chat messages and prompts of language agents, all of row 0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 torchrl==0.14.1 tensordict==0.14.3 numpy==2.4.6
export TMPDIR=$work
"$work/v/bin/python" - << 'END'
import sys

import torch
from tensordict import NonTensorStack, TensorDict
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ListStorage, TensorDictReplayBuffer

MAPS = ["hills", "town", "coast", "river"]


def rows(storage, one_by_one):
    buffer = TensorDictReplayBuffer(storage=storage(10), batch_size=4)
    data = TensorDict({"number": torch.arange(4)}, [4])
    data.set("map", NonTensorStack(*MAPS))
    if one_by_one:
        for row in data:
            buffer.add(row.clone())
    else:
        buffer.extend(data[:2].clone())
        buffer.extend(data[2:].clone())
    stored = buffer[:]
    return stored["number"].tolist(), list(stored["map"])


holds = True
for storage in (LazyTensorStorage, ListStorage, LazyMemmapStorage):
    for one_by_one in (False, True):
        numbers, maps = rows(storage, one_by_one)
        print(storage.__name__, "add" if one_by_one else "extend", numbers, maps)
        expected = ["hills"] * 4 if storage is LazyMemmapStorage else MAPS
        holds &= numbers == [0, 1, 2, 3] and maps == expected
print("LazyMemmapStorage returns the first string for every row:", holds)
sys.exit(not holds)
END
