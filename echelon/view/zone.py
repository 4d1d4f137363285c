"""Where the zone of a battle lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.replay.battle import POS_PER_VOX, YAW_PER_RAD, Battle, Fact


def zone_of(battle: Battle, about: dict[str, Any]) -> dict[str, Any]:
    """`center` [2] and `radius` of the zone, vox, as the cockpits tell it.

    Each cockpit shows the zone from where its mech stands, to a 255th of its range: the median of all of them is
    right to a few hundredths of a voxel.
    """
    longest = max(about["size"][:2])
    ahead, left = (ego_column(battle, about, "zone_vector", i) * longest for i in range(2))
    radius = ego_column(battle, about, "zone_radius", 0) * longest
    alive = (battle.facts & Fact.ALIVE) > 0
    yaw = battle.yaw / YAW_PER_RAD
    x = battle.pos[..., 0] / POS_PER_VOX + np.cos(yaw) * ahead - np.sin(yaw) * left
    y = battle.pos[..., 1] / POS_PER_VOX + np.sin(yaw) * ahead + np.cos(yaw) * left
    center = [round(float(np.median(axis[alive])), 2) for axis in (x, y)]
    return {"center": center, "radius": round(float(np.median(radius[alive])), 2)}


def ego_column(battle: Battle, about: dict[str, Any], name: str, index: int) -> np.ndarray:
    """`[T + 1, N]` one column of the ego stream, in the unit of its layout."""
    first = 0
    for feature, width, low, high in about["ego"]:
        if feature == name:
            return low + (high - low) * battle.ego[..., first + index] / 255
        first += width
    raise KeyError(f"no ego feature {name!r}")
