"""Battles as a Minari dataset, for Minari, TorchRL and offline RL libraries. Requires the extra `minari`.

>>> write_minari(open_dataset("hard.safetensors"), Path.home() / ".minari/datasets/hard-v0")
>>> minari.load_dataset("hard-v0")
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from echelon.agents.heuristic import is_scripted
from echelon.command.port import mechs_of
from echelon.datasets.dataset import Dataset, as_form
from echelon.env.observation.layout import GROUPS
from echelon.integrations import missing
from echelon.runtime import version
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, new_folder, writing_to

try:
    import h5py  # noqa: F401  # Minari writes HDF5 files
    import numpy as np
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.spaces import Box
    from minari import __version__ as minari_version
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.dataset.minari_storage import MinariStorage
except ModuleNotFoundError as error:
    raise missing("minari", error, "echelon.datasets.minari") from None


def name_of(folder: Path) -> str:
    """Return the `dataset_id` of a new folder: its path relative to Minari's datasets folder, or else its name.

    Raises:
        ConfigError: if the name is invalid for Minari, or the folder exists.
        FileError: if the folder is not writable.
    """
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or "~/.minari/datasets").expanduser().resolve()
    path = folder.expanduser().resolve()
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    is_name = False
    with suppress(ValueError, TypeError):  # without a version
        is_name = parse_dataset_id(name) is not None
    require(is_name, "the folder of a Minari dataset", "NAME-vNUMBER, such as hard-v0", name)
    require(not path.exists(), f"{folder}", "a new folder (datasets are not overwritten)", "an existing one")
    check_writable(path)
    return name


def write_minari(dataset: Dataset, folder: Path) -> int:
    """Write a Minari dataset with one episode per mech and battle, with the rows of `echelon.mechs`.

    Observations are flat, `[T + 1, F]` including the last one; actions are `[T, D]` in [-1, 1]. The episode of a dead
    mech continues until the battle ends, with its team's rewards; `infos["alive"]`, `[T + 1]` bool, marks the decisions
    before its death. The metadata of an episode are its `seed` and, in `options`, the index of the `battle`, the
    `agent`, its `commander`, its `opponent`, and the `winner`. The dataset's `env_spec` is the result of
    `environment_of`.

    Args:
        dataset: result of `open_dataset`.
        folder: the new folder, `NAME-vNUMBER`; if it is below `~/.minari/datasets`, Minari finds it by this name.

    Returns:
        The number of episodes.

    Raises:
        ConfigError: if the name is invalid for Minari, or if the folder exists.
        FileError: if the folder is not writable.
    """
    folder = folder.expanduser().resolve()  # Pass an absolute path, because Minari would prepend a relative one twice.
    name, first = name_of(folder), next(episodes(dataset))
    with new_folder(folder, folder.parent / f".{folder.name}.{os.getpid()}") as draft, writing_to(folder):
        storage = MinariStorage.new(
            draft / "data",
            Box(-np.inf, np.inf, np.shape(first.observations)[1:], np.float32),
            Box(-1.0, 1.0, np.shape(first.actions)[1:], np.float32),
        )
        storage.update_metadata(
            {
                "dataset_id": name,
                "minari_version": minari_version,
                "algorithm_name": ", ".join(dataset.commanders),
                "description": f"Battles of Echelon {version.VERSION}, one episode per mech",
                "requirements": [f"echelon-marl>={version.VERSION}"],
                "env_spec": environment_of(dataset).to_json(),
            }
        )
        storage.update_episodes(episodes(dataset))
        return storage.total_episodes


def environment_of(dataset: Dataset) -> EnvSpec:
    """Return the spec for `MinariDataset.recover_environment`: one agent, blue's first mech, in the dataset's battles.

    The other mechs of both teams are played by scripted commanders of the dataset, because a file must not name code to
    import. If the dataset has no scripted commander, they are played by the default commanders of `TeamEnv`.
    """
    scripted = [name for name in map(mechs_of, dataset.commanders) if is_scripted(name)]
    settings: dict[str, Any] = {"config": dataset.config.signature()}
    if scripted:
        settings["opponent"] = scripted[-1]
    if len(dataset.config.blue) > 1:
        settings |= {"mine": [0], **({"partner": scripted[0]} if scripted else {})}
    return EnvSpec(
        "Echelon-v0",
        entry_point="echelon.integrations.gymnasium:TeamEnv",
        max_episode_steps=dataset.config.rules.max_decisions,
        kwargs=settings,
    )


def episodes(dataset: Dataset) -> Iterator[EpisodeBuffer]:
    """Yield the episodes, battle by battle, and within a battle blue's mechs before red's."""
    stop = 0
    for battle, decisions in enumerate(dataset.battles["decisions"].tolist()):
        start, stop = stop, stop + decisions
        rows: TensorDict = dataset.rows[start:stop]
        battle_row: TensorDict = dataset.battles[battle : battle + 1]
        ends = {key: rows["next", key][:, 0].numpy() for key in ("terminated", "truncated")}
        names = [dataset.commanders[index] for index in battle_row["commander"][0].tolist()]
        for side, group in enumerate(GROUPS):
            observations: TensorDictBase = torch.cat(
                [rows[group].select("observation", "mask"), battle_row["last", group]]
            )
            flat, alive = as_form(observations, "flat")["observation"], observations["mask"]
            for mech in range(flat.shape[1]):
                yield EpisodeBuffer(
                    seed=int(battle_row["seed"]),
                    options={
                        "battle": battle,
                        "agent": f"{group}_{mech}",
                        "commander": names[side],
                        "opponent": names[1 - side],
                        "winner": int(battle_row["winner"]),
                    },
                    observations=flat[:, mech].numpy(),
                    actions=rows[group, "action"][:, mech].numpy(),
                    rewards=rows["next", group, "reward"][:, mech, 0].numpy(),
                    terminations=ends["terminated"],
                    truncations=ends["truncated"],
                    infos={"alive": alive[:, mech].numpy()},
                )
