"""The height map of the terrain, seen from above and shared by all mechs of a battle. `world.pool.seen_from_above`
computes the height map once per map."""

from __future__ import annotations

from echelon.env.observation.features import Feature
from echelon.env.observation.stream import Axis, Stream
from echelon.state import TELEMETRY_CELLS

STREAM = Stream(
    name="telemetry",
    features=(Feature("height", TELEMETRY_CELLS**2, 0.0, 1.0, "height of the map", "seen from above"),),
    axes=tuple(Axis(name, lambda config: TELEMETRY_CELLS) for name in ("y", "x")),
    is_grid=True,
)
