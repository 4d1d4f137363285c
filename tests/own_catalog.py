"""A catalog with a user-defined weapon, from `examples/railgun.json`."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

from builders import Scene, scene

from echelon.rules.catalog import Catalog, read_catalog
from echelon.rules.config import EnvConfig

RAILGUN = Path(__file__).parent / "examples" / "railgun.json"
CATALOG = read_catalog(RAILGUN)
AHEAD_VOX = 18.0
"""A distance beyond the range of all other guns of a scout."""


def armed_duel(catalog: Catalog = CATALOG) -> Scene:
    """Return a scout, with or without the railgun, and a heavy that face each other."""
    config = dataclasses.replace(EnvConfig.small(), catalog=catalog, blue=("scout",), red=("heavy",))
    return scene(config).place(0, 6.5, 20.5).place(1, 6.5 + AHEAD_VOX, 20.5, yaw=math.pi)
