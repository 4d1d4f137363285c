#!/usr/bin/env bash
# Guess: RandomMemory.sample(sequence_length=...) returns steps that followed each other in one environment.
# Seen: once the memory is full and writes over its oldest rows, sequences run across the place of writing: the newest
#   step is followed by the oldest one, as if it were the next. No flag marks the place.
# Versions: skrl 2.1.1, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: off-policy agents with recurrent policies (sequence_length above 1): such a sequence carries the memory of the
#   newest episode into the oldest. A small memory and long sequences have more of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 skrl==2.1.1 numpy==2.4.6
"$work/v/bin/python" -W ignore - << 'END'
import sys

import torch
from skrl.memories.torch import RandomMemory

memory = RandomMemory(memory_size=8, num_envs=2, device="cpu")
memory.create_tensor("time", size=1, dtype=torch.int64)
memory.create_tensor("terminated", size=1, dtype=torch.bool)
torch.manual_seed(0)
seams = {}
for time in range(13):
    memory.add_samples(time=torch.tensor([[time], [time + 1000]]), terminated=torch.zeros(2, 1, dtype=torch.bool))
    if time + 1 in (8, 13):
        times, ended = memory.sample(["time", "terminated"], batch_size=4000, sequence_length=3)[0]
        steps = times.view(-1, 3).diff(dim=1)
        odd = (steps != 1).any(1)
        seams[time + 1] = (round(float(odd.float().mean()), 2), steps[steps != 1].unique().tolist(), bool(ended.any()))
for written, seam in seams.items():
    print(f"after {written} steps in 8 rows: share of sequences with a jump, the jumps, any flag of an end: {seam}")
holds = seams[8] == (0.0, [], False) and 0.2 < seams[13][0] < 0.4 and seams[13][1] == [-7] and not seams[13][2]
print("sequences run from the newest step to the oldest:", holds)
sys.exit(not holds)
END
