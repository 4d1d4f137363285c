"""What mechs observed, for whoever shows it: the columns of each stream in units of the game, numbers as whole ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from echelon.env.observation import layout
from echelon.env.observation.layout import Feature
from echelon.replay.battle import Battle, Replay
from echelon.replay.ground import config_of
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.world.pool import bit_columns, seen_from_above

LEVELS = 4095
"""Steps from the lowest to the highest value of a column: a twentieth of a voxel on a map 64 long."""
PREFIX = "observed_"
"""What the names of the arrays begin with that `observed_arrays` makes."""
ROWS = {"contacts": 1, "squad": 1, "comms": 1, "ego": 0}
"""Streams that are numbers in columns: axes between the mechs and the columns."""
MASKS = ("contacts_mask", "squad_mask")
Scale = float | list[float]


def units(config: EnvConfig) -> dict[str, tuple[Scale, str]]:
    """For each unit of `env.observation.layout` what its numbers are multiplied by to be in which unit of the game."""
    world, rules = config.world, config.rules
    return {
        "": (1.0, ""),
        "flag": (1.0, ""),
        "one-hot": (1.0, ""),
        layout.MAP_SIDE: (float(world.longest_side), "vox"),
        layout.TEN_VOX_PER_S: (10.0, "vox/s"),
        layout.FULL: (100.0, "%"),
        "heat capacity": (100.0, "%"),
        "pi/4 rad": (45.0, "°"),
        "size of the map": ([float(world.size_x), float(world.size_y), float(world.size_z)], "vox"),
        "height of the map": (float(world.size_z), "vox"),
        "longest of its timer": (100.0, "%"),
        layout.BEST_QUALITY: (rules.best_quality, ""),
        "full strength": (100.0, "%"),
        "share of its weapons": (100.0, "%"),
        "score that wins": (rules.zone_score_to_win_s, "s"),
        "longest battle": (rules.max_episode_s, "s"),
    }


def describe_observed(replay: Replay) -> dict[str, list[dict[str, Any]]]:
    """The features of every stream as JSON values: `name`, `parts`, `low`, `high`, `unit` and `meaning` as in
    `env.describe()`, `scale` and `shown` (factor and unit of the game), and `off`, whether a switch keeps it 0.

    The ego stream is that which the replay names.
    """
    config, features = config_of(replay), features_of(replay)
    return {
        stream: [feature_json(feature, config) for feature in features[stream]]
        for stream in (*ROWS, "local_map", "telemetry")
    }


def features_of(replay: Replay) -> dict[str, tuple[Feature, ...]]:
    """Those of the streams of a replay, of the ego stream of this version's layout where it has them."""
    comm_dim = int(replay.battles[0].messages.shape[-1])
    by_column = {feature[:4]: feature for feature in layout.EGO}
    ego = tuple(by_column.get(tuple(column)) or Feature(*column) for column in replay.about["ego"])
    return {**layout.streams(comm_dim), "ego": ego}


def feature_json(feature: Feature, config: EnvConfig) -> dict[str, Any]:
    scale, unit_text = units(config)[feature.unit]
    is_off = any(not getattr(config.features, switch) for switch in feature.switches) and not feature.unswitched
    return {
        **{name: getattr(feature, name) for name in ("name", "width", "low", "high", "unit", "meaning")},
        "parts": list(feature.parts),
        "scale": scale,
        "shown": unit_text,
        "off": is_off,
    }


def observed_arrays(replay: Replay, battle: Battle, ground: np.ndarray) -> dict[str, np.ndarray]:
    """The observations of a battle by name, none where it kept none: numbers `[T + 1, N, ...]` uint16, 0 to `LEVELS`
    over the range of their columns; masks and the ground around a mech uint8, 0 or 1; `observed_telemetry [1, 16, 16]`
    of the ground `[Z, Y, X]` on which it began. A stream that has not the columns of `describe_observed` is left out.
    """
    streams = battle.observations
    if not streams:
        return {}
    features, arrays = features_of(replay), {}
    for stream, rows in ROWS.items():
        columns = layout.width(features[stream])
        if stream in streams and streams[stream].ndim == 3 + rows and streams[stream].shape[-1] == columns:
            low, high = (bound.numpy() for bound in layout.bounds(features[stream]))
            arrays[PREFIX + stream] = quantize(streams[stream], low, high)
    side = layout.LOCAL_MAP_CELLS
    if "local_map" in streams and streams["local_map"].shape[2:] == (side, side):
        arrays[f"{PREFIX}local_map"] = (streams["local_map"] > 0.5).astype(np.uint8)
    for mask in MASKS:
        stream = PREFIX + mask.removesuffix("_mask")
        if stream in arrays and mask in streams and streams[mask].shape == arrays[stream].shape[:-1]:
            arrays[PREFIX + mask] = (streams[mask] > 0).astype(np.uint8)
        else:
            arrays.pop(stream, None)
    return {**arrays, f"{PREFIX}telemetry": quantize(telemetry(ground, config_of(replay)), 0.0, 1.0)}


def quantize(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Numbers as whole ones over their range."""
    share = (values.astype(np.float64) - low) / (high - low)
    return np.rint(share.clip(0, 1) * LEVELS).astype(np.uint16)


def telemetry(ground: np.ndarray, config: EnvConfig) -> np.ndarray:
    """`[1, 16, 16]` the map that both teams are given, of the ground `[Z, Y, X]` on which the battle began."""
    material = torch.from_numpy(ground)[None]
    kinds = [config.catalog.material(kind) for kind in Material]
    blocks = bit_columns(material, [kind.solid or kind.opaque for kind in kinds])
    return seen_from_above(blocks, ground.shape[0]).numpy()
