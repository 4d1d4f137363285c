"""Read a dataset of `echelon-arena dataset --format minari` with Minari, TorchRL and d3rlpy."""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import minari
import numpy as np
from tensordict import TensorDict
from torchrl.data import ReplayBuffer
from torchrl.data.datasets.minari_data import MinariExperienceReplay


def replay_buffer(name: str, cache: Path, batch_size: int = 32) -> ReplayBuffer:
    """Return a replay buffer of TorchRL, which stores a copy in `cache`."""
    # TorchRL 0.14 returns zeros for any dataset: it allocates memory like the one it has filled. This patch keeps
    # the content.
    with patch.object(TensorDict, "memmap_like", TensorDict.memmap):
        return MinariExperienceReplay(name, batch_size, root=cache, load_from_local_minari=True, download=False)


def d3rlpy_dataset(name: str) -> Any:
    """Return d3rlpy's dataset. Its own `get_minari` (2.8.1) joins T + 1 observations with T actions."""
    from d3rlpy.dataset import MDPDataset

    return MDPDataset(**columns(name))


def columns(name: str) -> dict[str, np.ndarray]:
    """Return the steps of all episodes, joined: T of each."""
    loaded = list(minari.load_dataset(name))
    names = {"rewards": "rewards", "actions": "actions", "terminals": "terminations", "timeouts": "truncations"}
    joined = {ours: np.concatenate([getattr(episode, theirs) for episode in loaded]) for ours, theirs in names.items()}
    return {"observations": np.concatenate([episode.observations[:-1] for episode in loaded]), **joined}


if __name__ == "__main__":
    print(replay_buffer(sys.argv[1], Path("cache")).sample()["action"].abs().mean())
    print(d3rlpy_dataset(sys.argv[1]))
