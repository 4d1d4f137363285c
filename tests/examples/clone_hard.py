"""Behaviour cloning: a network imitates a scripted commander from recorded battles, then plays another commander.

python pipelines/arena.py dataset --commanders heuristic:hard heuristic:easy --battles 512 --out hard.safetensors
python tests/examples/clone_hard.py
"""

import tempfile
from pathlib import Path

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.data import LazyMemmapStorage, ReplayBuffer

from echelon.agents.heuristic import Heuristic
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Result, play
from echelon.datasets.dataset import Dataset, open_dataset
from echelon.views.transforms import FlatObservation


class Clone(nn.Module):
    """A commander without memory: an MLP with two hidden layers from a mech's observation to its action."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        hidden = [nn.LayerNorm(inputs), nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        self.net = nn.Sequential(*hidden, nn.Linear(256, outputs))

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Write the actions of a team."""
        return team.set("action", self.net(FlatObservation.of(team["observation"])).clamp(-1, 1))


def learn(dataset: Dataset, teacher: str, steps: int, folder: str) -> tuple[Clone, list[float]]:
    """Return the clone, and its squared error at every step."""
    torch.manual_seed(0)
    room = len(dataset) * dataset.config.num_mechs
    buffer = ReplayBuffer(storage=LazyMemmapStorage(room, scratch_dir=folder), batch_size=512)
    for part in dataset.mechs_of(teacher):
        buffer.extend(part)
    clone, errors = Clone(part["observation"].shape[-1], part["action"].shape[-1]), []
    optimiser = torch.optim.Adam(clone.parameters(), lr=1e-3)
    for batch in (buffer.sample() for _ in range(steps)):
        error = (clone.net(batch["observation"]) - batch["action"]).square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        errors.append(error.item())
    return clone.eval(), errors


def main(path: Path, steps: int = 3000, battles: int = 200, seed: int = 1) -> tuple[Result, list[float]]:
    """Evaluate the clone of `hard` against `easy`, in battles with seeds that are not in the file."""
    dataset = open_dataset(path)
    with tempfile.TemporaryDirectory() as folder:
        clone, errors = learn(dataset, "heuristic:hard", steps, folder)
    rival = Heuristic(dataset.config, "easy")
    return play(clone, rival, dataset.config, battles, seed, ArenaConfig(torch.device("cpu"))), errors


if __name__ == "__main__":
    found, errors = main(Path("hard.safetensors"))
    print(found.x_wins, "of", found.battles, "won, 95 %:", found.x_win_rate_95, "error", errors[0], "to", errors[-1])
