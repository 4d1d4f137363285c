"""A catalog with a weapon of one's own, from `examples/railgun.json`, for tests."""

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
"""Beyond the reach of every other gun of a scout."""


def armed_duel(catalog: Catalog = CATALOG) -> Scene:
    """A scout with the railgun, or without, and a heavy who look at each other."""
    config = dataclasses.replace(EnvConfig.small(), catalog=catalog, blue=("scout",), red=("heavy",))
    return scene(config).place(0, 6.5, 20.5).place(1, 6.5 + AHEAD_VOX, 20.5, yaw=math.pi)
