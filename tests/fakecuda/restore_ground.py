"""Runs the Triton form of `restore_ground` by Triton's interpreter, on a CPU, and compares it with the dense one."""

import os

os.environ["TRITON_INTERPRET"] = "1"
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from kernel_cases import BATTLES, standard_maps

from echelon.env.kernels.restore_ground import launch, restore_ground_dense
from echelon.state import untouched


def main() -> None:
    """Ground that was fought on, of which about half is restored."""
    maps, generator = standard_maps(), torch.Generator().manual_seed(1)
    map_id = torch.arange(BATTLES).flip(0)
    # A column of a table, as TorchRL's rollouts hand out.
    which = (torch.rand(BATTLES, 3, generator=generator) < 0.5)[:, 1]
    assert which.any() and not which.all() and not which.is_contiguous()
    ground = untouched(map_id, maps)
    fought = [ground.solid ^ 5, ground.opaque ^ 9, ground.rubble + 3, ground.damage + 7]
    found = []
    for form in (launch, restore_ground_dense):
        mine = [tensor.clone() for tensor in fought]
        form(which, map_id, *mine, maps.solid, maps.opaque)
        found.append(mine)
    for ours, theirs, before in zip(*found, fought, strict=True):
        assert torch.equal(ours, theirs) and not torch.equal(ours, before)
    print("equal")


if __name__ == "__main__":
    main()
