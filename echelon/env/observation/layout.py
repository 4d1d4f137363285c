"""What each observation stream holds: names, widths and ranges, counted here and nowhere else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.actions import CONTROLS, SORT_MODES, Act
from echelon.rules.catalog import Hull, Trigger
from echelon.rules.roster import SUITE_DESCRIPTOR
from echelon.state import TELEMETRY_CELLS

GROUPS = ("blue", "red")
"""The teams as agent groups."""
STREAMS = ("contacts", "contacts_mask", "squad", "squad_mask", "ego", "comms", "local_map")
"""Observation streams of a mech."""
LOCAL_MAP_CELLS = 11
"""Side of the map around a mech, one cell a voxel."""
MAX_CONTACTS = 24

PACK_SIZE = 5
COOLDOWNS = len(Trigger) + 1
"""Cooldowns that a cockpit shows: of its four triggers, and of its AMS."""


class Feature(NamedTuple):
    """One named run of columns and the range of its numbers."""

    name: str
    width: int
    low: float
    high: float


def flag(name: str) -> Feature:
    """A column that is 0 or 1."""
    return Feature(name, 1, 0.0, 1.0)


CONTACT = (
    Feature("rel_pos", 3, -1.5, 1.5),  # body frame, over the longest side of the map
    Feature("rel_vel", 3, -6.0, 6.0),  # body frame, vox/s / 10
    Feature("rel_yaw_sin_cos", 2, -1.0, 1.0),
    Feature("hp", 1, 0.0, 1.0),
    Feature("heat", 1, 0.0, 2.0),
    Feature("stability", 1, 0.0, 1.0),
    flag("fallen"),
    flag("legged"),
    flag("friendly"),
    flag("hostile"),
    Feature("hull", len(Hull), 0.0, 1.0),
    flag("painted"),  # by the viewer's pack
    flag("intel"),  # sensed by packmates only
    flag("detail"),  # whether hp, heat and stability are shown
    Feature("lead_pitch", 1, -2.0, 2.0),  # elevation a falling shot needs, over pi / 4
    Feature("closing", 1, -1.0, 1.0),  # vox/s / 10, clipped
    Feature("crossing", 1, 0.0, 1.0),  # 1 - |cos| between its relative velocity and the line to it
)
SQUAD = (
    Feature("rel_pos", 3, -1.5, 1.5),  # body frame, over the longest side of the map
    Feature("hull", len(Hull), 0.0, 1.0),
    flag("alive"),
    Feature("hp", 1, 0.0, 1.0),
    Feature("heat", 1, 0.0, 2.0),
    Feature("stability", 1, 0.0, 1.0),
    Feature("readiness", 1, 0.0, 1.0),  # share of its weapons that could fire now
    Feature("target_rel_pos", 3, -1.5, 1.5),  # its focus target, as rel_pos
)
EGO = (
    Feature("hull", len(Hull), 0.0, 1.0),
    flag("alive"),
    Feature("position", 3, 0.0, 1.0),
    Feature("yaw_sin_cos", 2, -1.0, 1.0),
    Feature("hp", 1, 0.0, 1.0),
    Feature("leg_hp", 1, 0.0, 1.0),
    Feature("heat", 1, 0.0, 2.0),
    Feature("headroom", 1, -1.0, 1.0),
    Feature("stability_risk", 1, 0.0, 1.0),
    Feature("velocity", 3, -3.0, 3.0),  # body frame, vox/s / 10, 0 when shut down
    Feature("cooldown", COOLDOWNS, 0.0, 1.0),  # of each trigger and the AMS, over the longest of its timer
    flag("targeted"),  # an enemy close by has a clear line
    flag("under_fire"),
    flag("painted"),
    flag("shut_down"),
    flag("critical_heat"),
    flag("incoming_missile"),
    flag("suppressed"),
    flag("ecm"),
    flag("eccm"),
    Feature("hit_from", 2, -1.0, 1.0),  # body frame, towards where the last hit came from
    Feature("sensor_quality", 1, 0.0, 1.0),
    Feature("jam", 1, 0.0, 1.0),
    Feature("acoustics", 4, 0.0, 2.0),  # noise heard ahead, left, behind, right
    flag("in_zone"),
    Feature("zone_vector", 2, -1.5, 1.5),  # body frame, over the longest side of the map
    Feature("zone_radius", 1, 0.0, 1.0),
    Feature("path_direction", 2, -1.0, 1.0),  # body frame
    Feature("path_length", 1, 0.0, 4.0),  # over the longest side of the map, clipped
    Feature("own_score", 1, 0.0, 1.0),
    Feature("enemy_score", 1, 0.0, 1.0),
    Feature("control", 1, -1.0, 1.0),
    Feature("time", 1, 0.0, 1.0),
    Feature("sort_mode", SORT_MODES, 0.0, 1.0),
    flag("hostile_only"),
    Feature("suite", SUITE_DESCRIPTOR, 0.0, 1.0),
)
OF_THE_DEAD = ("own_score", "enemy_score", "control", "time")
"""Ego features a dead mech still shows."""


def width(features: tuple[Feature, ...]) -> int:
    """Columns of a stream."""
    return sum(feature.width for feature in features)


def bounds(features: tuple[Feature, ...]) -> tuple[Tensor, Tensor]:
    """`[F]` lowest and `[F]` highest value of each column."""
    low = torch.tensor([f.low for f in features for _ in range(f.width)])
    high = torch.tensor([f.high for f in features for _ in range(f.width)])
    return low, high


def columns(features: tuple[Feature, ...], name: str) -> slice:
    """Where a feature sits in its stream."""
    start = 0
    for feature in features:
        if feature.name == name:
            return slice(start, start + feature.width)
        start += feature.width
    raise KeyError(f"no feature {name!r}, expected one of {[f.name for f in features]}")


def pack(
    features: tuple[Feature, ...], values: dict[str, Tensor], shown: Tensor, always: Collection[str] = ()
) -> Tensor:
    """Lay named values out as columns, in the order of `features`.

    Args:
        values: for each feature `[..., width]`, or `[...]` where its width is 1.
        shown: `[...]` bool; the other rows are zero.
        always: features that every row shows.
    """

    def column(name: str) -> Tensor:
        value = values[name] if values[name].dim() > shown.dim() else values[name][..., None]
        value = value.to(torch.float32)
        # Zeroed one by one: a pass over all columns at the end would read and write them once more.
        return value if name in always else torch.where(shown[..., None], value, 0.0)

    return torch.cat([column(feature.name) for feature in features], -1)


def streams(comm_dim: int) -> dict[str, tuple[Feature, ...]]:
    """The columns of the action and of every stream, grids flattened."""
    message = Feature("message", comm_dim, -1.0, 1.0)
    return {
        "action": (*(Feature(act.name.lower(), 1, -1.0, 1.0) for act in Act), message),
        "contacts": CONTACT,
        "squad": SQUAD,
        "ego": EGO,
        "comms": (message,),
        "local_map": (Feature("blocked", LOCAL_MAP_CELLS**2, 0.0, 1.0),),
        "telemetry": (Feature("height", TELEMETRY_CELLS**2, 0.0, 1.0),),
    }


def describe(comm_dim: int) -> dict[str, list[list[object]]]:
    """The whole layout as plain JSON values; a checkpoint stores it and its hash."""
    return {name: [list(feature) for feature in features] for name, features in streams(comm_dim).items()}


SHAPES = {
    "action": "[B, A, D] in (group, 'action')",
    "contacts": "[B, A, C, F] and contacts_mask [B, A, C]",
    "squad": "[B, A, S, F] and squad_mask [B, A, S]",
    "ego": "[B, A, F]",
    "comms": "[B, A, 5, comm_dim], a row for each of the pack",
    "local_map": "[B, A, 11, 11], rows ahead, columns to the left",
    "telemetry": "[B, 16, 16], at the root, once a battle",
}
"""How each of `streams` is shaped, in words."""


def layout_hash(comm_dim: int) -> str:
    """sha256 of `describe`: equal layouts, equal hashes."""
    return hashlib.sha256(json.dumps(describe(comm_dim), sort_keys=True).encode()).hexdigest()


def action_width(comm_dim: int) -> int:
    """Numbers in an action, D."""
    return CONTROLS + comm_dim
