"""The ground of a recorded battle, made again from its recipe."""

from __future__ import annotations

import numpy as np

from echelon.replay.battle import Battle, Replay
from echelon.rules.config import env_from_json
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.world import recipe


def rebuild(replay: Replay, battle: Battle) -> np.ndarray:
    """`[Z, Y, X]` uint8 materials of the map as the battle began.

    Raises:
        FileError: the settings or the recipe are damaged, or make another map than the one that was played on.
    """
    try:
        config = env_from_json(replay.about["env"])
        maps = recipe.from_json(battle.about["map"]).make(config)
    except ConfigError as error:
        raise FileError(f"replay: {error}") from None
    return maps.material[0].numpy()
