"""Columns of the action and of each observation stream. Checkpoints store the layout and its hash."""

from __future__ import annotations

import hashlib
import json

from echelon.env.observation.features import (
    BEST_QUALITY,
    FULL,
    HULLS,
    MAP_SIDE,
    SORTS,
    TEN_VOX_PER_S,
    Feature,
    bounds,
    columns,
    flag,
    pack,
    width,
)
from echelon.env.observation.streams.comms import PACK_SIZE, message
from echelon.env.observation.streams.contacts import CONTACT, MAX_CONTACTS
from echelon.env.observation.streams.ego import COOLDOWNS, EGO, OF_THE_DEAD
from echelon.env.observation.streams.local_map import LOCAL_MAP_CELLS
from echelon.env.observation.streams.order import ORDER
from echelon.env.observation.streams.packs import PACK_REPORT
from echelon.env.observation.streams.registry import IN_ALL_BATTLES, OF_BATTLES, OF_COMMANDERS, names_of
from echelon.env.observation.streams.situation import SITUATION
from echelon.env.observation.streams.squad import SQUAD
from echelon.env.observation.streams.tracks import TRACK
from echelon.rules.actions import CONTROLS, PREFERENCES
from echelon.rules.orders import Discipline, OrderKind
from echelon.state import TELEMETRY_CELLS

__all__ = [
    "BEST_QUALITY",
    "CONTACT",
    "COOLDOWNS",
    "EGO",
    "FULL",
    "HULLS",
    "LOCAL_MAP_CELLS",
    "MAP_SIDE",
    "MAX_CONTACTS",
    "OF_THE_DEAD",
    "ORDER",
    "PACK_REPORT",
    "PACK_SIZE",
    "SITUATION",
    "SORTS",
    "SQUAD",
    "TELEMETRY_CELLS",
    "TEN_VOX_PER_S",
    "TRACK",
    "Feature",
    "bounds",
    "columns",
    "flag",
    "pack",
    "width",
]
GROUPS = ("blue", "red")
"""Agent groups, one per team."""
STREAMS = names_of(IN_ALL_BATTLES)
"""Names of the observation streams of mechs in all battles, with masks."""
COMMAND = {"blue": "blue_command", "red": "red_command"}
"""Agent group of each team's commanders, one commander per pack, if `EnvConfig.command` is on."""
GIVEN = (
    Feature("kind", len(OrderKind), -1.0, 1.0, "", "score of this order; the highest above 0, else the last order",
            tuple(kind.name.lower() for kind in OrderKind)),
    Feature("place", 2, -1.0, 1.0, "half of the map's side", "from the middle of the map", ("x", "y")),
    Feature("urgency", 1, -1.0, 1.0, "", "-1 .. 1 maps to 0 .. 1"),
    Feature("fire", len(Discipline), -1.0, 1.0, "", "score of this fire discipline; the highest applies",
            tuple(d.name.lower() for d in Discipline)),
)  # fmt: skip
"""A commander's action for its pack, without `target`, a preference for each enemy, which follows."""
CONTROL = (
    Feature("forward", 1, -1.0, 1.0, "top speed", "throttle; the norm with strafe is clipped to 1"),
    Feature("strafe", 1, -1.0, 1.0, "top speed", "throttle to the left"),
    Feature("vertical", 1, -1.0, 1.0, "full thrust", "jet thrust, for hulls with jets; below 0 counts as 0"),
    Feature("yaw_rate", 1, -1.0, 1.0, "top yaw rate", "above 0 turns left"),
    Feature("primary", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    Feature("vent", 1, -1.0, 1.0, "", "above 0 vents heat and blocks all weapons"),
    Feature("secondary", 1, -1.0, 1.0, "", "above 0 fires; on hulls with emitters: (0, 0.5] ECM, above 0.5 ECCM"),
    Feature("tertiary", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    Feature("special", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    *(
        Feature(f"prefer_{slot}", 1, -1.0, 1.0, "", "score of this contact as focus target; the highest above 0", (),
                ("target_preference",))
        for slot in range(PREFERENCES)
    ),
    *(
        Feature(f"sort_{mode}", 1, -1.0, 1.0, "", "score of this sort order of contacts; the highest applies", (),
                ("observation_control",))
        for mode in SORTS
    ),
    Feature("hostile_only", 1, -1.0, 1.0, "", "above 0 limits contacts to the other team", (),
            ("observation_control",)),
)  # fmt: skip
"""The controls of an action, in the order of `Act`, without the message, which follows."""


def streams(comm_dim: int) -> dict[str, tuple[Feature, ...]]:
    """Return the columns of the action and of every stream, by name; grids are flattened."""
    spoken = message(comm_dim, "message to the pack, observed one decision later")
    by_name = {stream.name: stream.features_of(comm_dim) for stream in (*IN_ALL_BATTLES, *OF_BATTLES)}
    return {"action": (*CONTROL, *spoken), **by_name}


def command_streams(enemies: int) -> dict[str, tuple[Feature, ...]]:
    """Return the columns of a commander's action and streams, by name, for this number of enemies."""
    meaning = "score of this enemy, if known, as target of an attack: the highest above 0 is chosen"
    target = Feature("target", enemies, -1.0, 1.0, "", meaning)
    return {"action": (*GIVEN, target), **{stream.name: stream.features_of(0) for stream in OF_COMMANDERS}}


def describe(comm_dim: int) -> dict[str, list[list[object]]]:
    """Return the whole layout as JSON values. A checkpoint stores the layout and its hash."""
    return {name: [list(feature[:4]) for feature in features] for name, features in streams(comm_dim).items()}


def layout_hash(comm_dim: int) -> str:
    """Return the sha256 of the layout that `describe` returns."""
    return hashlib.sha256(json.dumps(describe(comm_dim), sort_keys=True).encode()).hexdigest()


def action_width(comm_dim: int) -> int:
    """Return the number of columns of an action, D."""
    return CONTROLS + comm_dim
