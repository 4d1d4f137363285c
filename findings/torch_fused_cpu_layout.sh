#!/usr/bin/env bash
# Guess: an optimiser of torch with fused=True makes the same update as without, whatever strides a gradient has; a fused
#   form that cannot read them raises an error.
# Seen: on a CPU the fused Adam, AdamW, SGD and Adagrad read a gradient in the order of its memory. Where `parameter.grad`
#   is set to a transposed tensor of the right shape, each element is updated by another element's gradient: no error, no
#   warning. The forms without fused=True are right. (`backward` itself gives gradients the parameter's strides.)
# Versions: torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: training loops that set gradients themselves on a CPU, such as sums over processes or torch.autograd.grad.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 numpy
"$work/v/bin/python" - << 'END'
import sys

import torch

KINDS = {"Adam": {"eps": 1.0}, "AdamW": {"eps": 1.0}, "SGD": {}, "Adagrad": {"eps": 1.0}}


def updated(kind, transposed, **form):
    parameter = torch.nn.Parameter(torch.zeros(2, 3))
    gradient = torch.arange(6.0).view(2, 3)
    parameter.grad = gradient.t().contiguous().t() if transposed else gradient
    assert torch.equal(parameter.grad, gradient)
    getattr(torch.optim, kind)([parameter], lr=1.0, **KINDS[kind], **form).step()
    return parameter.detach()


seen = {}
for kind in KINDS:
    right = updated(kind, False, foreach=False)
    plain = torch.allclose(updated(kind, True, foreach=False), right)
    fused = torch.allclose(updated(kind, False, fused=True), right)
    moved = torch.allclose(updated(kind, True, fused=True), right)
    seen[kind] = plain, fused, moved
    print(f"{kind:8} transposed gradient: plain form right {plain}, fused right {moved}; contiguous, fused right {fused}")
print("SGD, gradient 0..5:", (-updated("SGD", True, fused=True)).tolist(), "in place of", [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
if set(seen.values()) != {(True, True, False)}:
    sys.exit("changed: fused optimisers on a CPU no longer mix up the elements of a transposed gradient")
END
