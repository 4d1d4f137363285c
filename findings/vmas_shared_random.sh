#!/usr/bin/env bash
# Guess: two VMAS environments made with seeds of their own each draw their worlds from a random state of their own.
# Seen: all environments of a process share one random state, and making or resetting one changes what the others draw.
#   With a second environment reset in turn, the worlds of seed 0 are others from the second reset on; of two
#   environments of one seed, each gets every second world of the stream. torch's own generator is left alone.
# Versions: vmas 1.5.2, torch 2.13.0, numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: a training with an evaluation environment beside it: how often it evaluates changes what it trains on, and the
#   evaluation's worlds are not those of its seed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 vmas==1.5.2 numpy==2.4.6
"$work/v/bin/python" -W ignore - << 'END'
import sys

import torch
import vmas


def make(seed):
    return vmas.make_env("simple_spread", num_envs=2, device="cpu", seed=seed, n_agents=2)


def world(env):
    env.reset()
    return torch.cat([agent.state.pos for agent in env.agents], -1).flatten().tolist()


alone = make(0)
alone = [world(alone) for _ in range(4)]
again = make(0)
again = [world(again) for _ in range(4)]
first, second = make(0), make(0)
turns = [(world(first), world(second)) for _ in range(2)]
train = make(0)
mixed = [world(train)]
evaluation = make(1)
mixed += [world(train) for _ in range(3)]
torch.manual_seed(5)
untouched = torch.rand(1)
torch.manual_seed(5)
train.seed(3), train.reset()
kept = bool(untouched == torch.rand(1))
print("first coordinate of the worlds of seed 0: alone", [round(positions[0], 3) for positions in alone])
print("with another environment made after the first reset:", [round(positions[0], 3) for positions in mixed])
print("of two environments of seed 0 in turn:", [[round(positions[0], 3) for positions in turn] for turn in turns])
holds = alone == again and mixed[0] == alone[0] and all(a != b for a, b in zip(mixed[1:], alone[1:])) and kept
holds = holds and [positions for turn in turns for positions in turn] == alone
print("environments of one process share their random state:", holds)
sys.exit(not holds)
END
