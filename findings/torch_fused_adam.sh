#!/usr/bin/env bash
# Guess: `Adam(fused=True)` on a CPU takes the steps of plain `Adam`, whatever the strides of a gradient.
# Seen: a gradient that is a transposed view is read in the order of its memory, so that its numbers reach other entries of
#   the weight, without an error or a warning. `backward()` lays gradients out as the weights lie, so that only gradients of
#   `torch.autograd.grad`, or written by hand, that are assigned to `.grad` are hit.
# Versions: torch 2.13.0+cpu (2026-11-30, Python 3.11).
# Hurt: whoever adds up gradients of `torch.autograd.grad`, as gradient accumulation and meta-learning do, and makes the optimiser fused.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$work/v/bin/python" - << 'END'
import sys

import torch

stepped = []
for fused in (False, True):
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    weight.grad = torch.tensor([[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]]).t()
    torch.optim.Adam([weight], lr=1.0, fused=fused).step()
    stepped.append(weight.detach().round().tolist())
print(f"plain {stepped[0]}, fused {stepped[1]}")
print("fused Adam takes other steps:", stepped[0] != stepped[1])
sys.exit(stepped[0] == stepped[1])
END
