"""The ground of a recorded battle, made again from its recipe."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from echelon.config import ConfigError, env_from_json
from echelon.files import FileError
from echelon.replay.battle import Battle, Replay
from echelon.roster import build_roster
from echelon.world.pool import make_maps


def fingerprint(material: np.ndarray) -> str:
    """sha256 of a map's voxels `[Z, Y, X]` uint8."""
    return hashlib.sha256(np.ascontiguousarray(material).tobytes()).hexdigest()


def rebuild(replay: Replay, battle: Battle) -> np.ndarray:
    """`[Z, Y, X]` uint8 materials of the map as the battle began.

    Raises:
        FileError: this version of the map maker makes another map of the recipe.
    """
    recipe = battle.about["map"]
    try:
        config = env_from_json(replay.about["env"])
    except ConfigError as error:
        raise FileError(f"replay: {error}") from None
    cpu = torch.device("cpu")
    maps = make_maps(config, build_roster(config, cpu), torch.tensor([recipe["seed"]]))
    material = maps.material[0].numpy()
    found = fingerprint(material)
    if found != recipe["sha256"]:
        hint = "it was recorded with another map maker, or on maps of its own"
        raise FileError(f"replay: map {recipe['seed']} must have sha256 {recipe['sha256']}, got {found}: {hint}")
    return material
