"""Runs the Triton form of `clear_leaves` by Triton's interpreter, on a CPU, and compares it with the dense one."""

import os

os.environ["TRITON_INTERPRET"] = "1"
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from kernel_cases import shots_through_a_jungle

from echelon.sim.kernels.clear_leaves import clear_leaves_dense, launch


def main() -> None:
    """Shots through a jungle."""
    env, ways = shots_through_a_jungle()
    game, solid, grown = env.game, env.state.terrain.solid, env.state.terrain.opaque
    ours, theirs = grown.clone(), grown.clone()
    muzzle, *others = ways
    launch(ours, solid, *muzzle, *others, game.leaf_reach, len(game.leaf_rounds))
    clear_leaves_dense(theirs, solid, *ways, game.leaf_rounds)
    assert torch.equal(ours, theirs) and (ours != grown).sum() > 20
    print("equal")


if __name__ == "__main__":
    main()
