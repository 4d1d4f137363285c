"""Write battles as a dataset, and read it: for behaviour cloning, for offline RL, and as sequences."""

from pathlib import Path

import torch
from torchrl.data import LazyMemmapStorage, ReplayBuffer, SliceSampler, TensorStorage

from echelon.datasets.dataset import Dataset, open_dataset
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.dataset import WriteDataset

COMMANDERS = ("heuristic:hard", "heuristic:easy")


def write(path: Path, battles: int = 4) -> Dataset:
    """Do what `echelon-arena dataset` does, and open the file."""
    WriteDataset(COMMANDERS, path, battles=battles, quiet=True, arena=ArenaArgs("cpu")).run()
    return open_dataset(path)


def main(path: Path) -> dict[str, torch.Size]:
    """Return the shapes of a batch of each kind."""
    dataset = write(path)
    shapes = {"ego": dataset.rows["blue", "observation", "ego"].shape, "winner": dataset.battles["winner"].shape}

    # Behaviour cloning: what the living mechs of one commander observed and did.
    part = next(iter(dataset.mechs_of("heuristic:hard")))
    shapes |= {"seen": part["observation"].shape, "done": part["action"].shape}

    # Offline RL: transitions, with the true last observation of a battle where it is done.
    buffer = ReplayBuffer(storage=LazyMemmapStorage(len(dataset)), batch_size=32)
    for part in dataset.transitions():
        buffer.extend(part)
    shapes["next"] = buffer.sample()["next", "blue", "observation"].shape

    # Sequences, straight from the file.
    slices = ReplayBuffer(
        storage=TensorStorage(dataset.rows), sampler=SliceSampler(slice_len=8, traj_key="battle"), batch_size=64
    )
    return shapes | {"slices": slices.sample()["blue", "action"].shape}


if __name__ == "__main__":
    print(main(Path("few.safetensors")))
