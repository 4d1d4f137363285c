"""Recorded observations for display: the columns of each stream in units of the game, quantised to integers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from echelon.env.observation import layout
from echelon.env.observation.layout import Feature
from echelon.env.observation.stream import Stream
from echelon.env.observation.streams.registry import IN_ALL_BATTLES, OF_BATTLES
from echelon.replay.battle import Battle, Replay
from echelon.replay.ground import config_of
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.world.pool import bit_columns, seen_from_above

LEVELS = 4095
"""Quantisation steps of a column's range: a twentieth of a voxel on a map of length 64."""
PREFIX = "observed_"
"""Prefix of the array names of `observed_arrays`."""
Scale = float | list[float]


def units(config: EnvConfig) -> dict[str, tuple[Scale, str]]:
    """Return a factor and the resulting unit of the game, keyed by the unit in `env.observation.layout`."""
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
    """Return the features of every observation stream as JSON values.

    A feature has `name`, `parts`, `low`, `high`, `unit` and `meaning` as in `env.describe()`, `scale` and `shown`
    (factor and unit for display), and `off` (whether the config switches it off, so that it is 0). The columns of the
    ego stream (a mech's own condition) are those that the replay recorded.
    """
    config, features = config_of(replay), features_of(replay)
    return {
        stream.name: [feature_json(feature, config) for feature in features[stream.name]]
        for stream in (*IN_ALL_BATTLES, *OF_BATTLES)
    }


def features_of(replay: Replay) -> dict[str, tuple[Feature, ...]]:
    """Return the features of a replay's streams.

    An ego feature that this version also has gets this version's metadata.
    """
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
    """Return the recorded observations of a battle, keyed by name; empty if none were recorded.

    Args:
        replay: the replay.
        battle: one of the replay's battles.
        ground: materials `[Z, Y, X]` at the start of the battle.

    Returns:
        Numbers are `[T + 1, N, ...]` uint16, 0..`LEVELS` over the range of their column; masks and local maps are
        uint8, 0 or 1; `observed_telemetry` is `[1, 16, 16]`. A stream whose columns differ from those of
        `describe_observed` is left out.
    """
    streams = battle.observations
    if not streams:
        return {}
    config, features = config_of(replay), features_of(replay)
    arrays: dict[str, np.ndarray] = {}
    for stream in IN_ALL_BATTLES:
        columns = features[stream.name]
        if not has_form(stream, streams, columns, config):
            continue
        values = streams[stream.name]
        if stream.is_grid:
            arrays[PREFIX + stream.name] = (values > 0.5).astype(np.uint8)
        else:
            low, high = (bound.numpy() for bound in layout.bounds(columns))
            arrays[PREFIX + stream.name] = quantize(values, low, high)
        arrays |= {PREFIX + mask: (streams[mask] > 0).astype(np.uint8) for mask in stream.names[1:]}
    return {**arrays, f"{PREFIX}telemetry": quantize(telemetry(ground, config), 0.0, 1.0)}


def has_form(
    stream: Stream, streams: Mapping[str, np.ndarray], columns: tuple[Feature, ...], config: EnvConfig
) -> bool:
    """Return whether observations contain a stream in the expected form: with these columns, and with its masks."""
    if any(name not in streams for name in stream.names):
        return False
    shape, masks = streams[stream.name].shape, [streams[name].shape for name in stream.names[1:]]
    if stream.is_grid:
        return shape[2:] == stream.rows(config)
    has_columns = len(shape) == 3 + len(stream.axes) and shape[-1] == layout.width(columns)
    return has_columns and all(mask == shape[:-1] for mask in masks)


def quantize(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Quantise numbers to integers 0..`LEVELS` over their range."""
    share = (values.astype(np.float64) - low) / (high - low)
    return np.rint(share.clip(0, 1) * LEVELS).astype(np.uint16)


def telemetry(ground: np.ndarray, config: EnvConfig) -> np.ndarray:
    """Return the coarse map `[1, 16, 16]` that both teams observe, from the initial `ground [Z, Y, X]`."""
    material = torch.from_numpy(ground)[None]
    kinds = [config.catalog.material(kind) for kind in Material]
    blocks = bit_columns(material, [kind.solid or kind.opaque for kind in kinds])
    return seen_from_above(blocks, ground.shape[0]).numpy()
