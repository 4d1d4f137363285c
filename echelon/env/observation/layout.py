"""What each observation stream holds: names, widths and ranges, counted here and nowhere else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.actions import CONTROLS, PREFERENCES, SORT_MODES
from echelon.rules.catalog import Hull, Suite, Trigger
from echelon.rules.orders import Discipline, OrderKind
from echelon.rules.roster import SUITE_DESCRIPTOR
from echelon.state import TELEMETRY_CELLS

GROUPS = ("blue", "red")
"""The teams as agent groups."""
STREAMS = ("contacts", "contacts_mask", "squad", "squad_mask", "ego", "comms", "local_map")
"""Observation streams of a mech."""
ORDER_STREAM = "order"
"""The stream beside them where `EnvConfig.command` is on."""
LOCAL_MAP_CELLS = 11
"""Side of the map around a mech, one cell a voxel."""
MAX_CONTACTS = 24

PACK_SIZE = 5
COOLDOWNS = len(Trigger) + 1
"""Cooldowns that a cockpit shows: of its four triggers, and of its AMS."""


class Feature(NamedTuple):
    """One named run of columns: the range of its numbers, and what they mean."""

    name: str
    width: int
    low: float
    high: float
    unit: str = ""
    """What 1 stands for; empty for a number without a unit."""
    meaning: str = ""
    parts: tuple[str, ...] = ()
    """Name of each column of the run; empty where they are numbered."""
    switches: tuple[str, ...] = ()
    """Fields of `FeaturesConfig`: with any of them off its columns are 0, and those of an action are not heard."""
    unswitched: tuple[str, ...] = ()
    """Those of `parts` that do not depend on `switches`."""


def flag(name: str, meaning: str = "", *switches: str) -> Feature:
    """A column that is 0 or 1."""
    return Feature(name, 1, 0.0, 1.0, "flag", meaning, (), switches)


MAP_SIDE, FULL, TEN_VOX_PER_S = "longest side of the map", "share of full", "10 vox/s"
BEST_QUALITY = "best quality of sensors"
AHEAD_LEFT, AHEAD_LEFT_UP, SIN_COS = ("ahead", "left"), ("ahead", "left", "up"), ("sin", "cos")
HULLS = tuple(hull.name.lower() for hull in Hull)
SORTS = ("closest", "biggest", "most_damaged")

CONTACT = (
    Feature("rel_pos", 3, -1.5, 1.5, MAP_SIDE, "where it is, in the viewer's body frame", AHEAD_LEFT_UP),
    Feature("rel_vel", 3, -6.0, 6.0, TEN_VOX_PER_S, "its velocity less the viewer's, in that frame", AHEAD_LEFT_UP),
    Feature("rel_yaw_sin_cos", 2, -1.0, 1.0, "", "where it faces, in that frame", SIN_COS),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points; 0 without detail"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "0 without detail"),
    Feature("stability", 1, 0.0, 1.0, FULL, "0 without detail"),
    flag("fallen", "it lies on the ground"),
    flag("legged", "its legs are shot off"),
    flag("friendly"),
    flag("hostile"),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("painted", "by the viewer's pack"),
    flag(
        "intel", "packmates sense or painted it, the viewer does not sense it; never under full observation", "suites"
    ),
    flag("detail", "hp, heat and stability are shown"),
    Feature("lead_pitch", 1, -2.0, 2.0, "pi/4 rad", "elevation at which the viewer's falling shot meets it"),
    Feature("closing", 1, -1.0, 1.0, TEN_VOX_PER_S, "speed at which it comes closer, clipped"),
    Feature("crossing", 1, 0.0, 1.0, "", "1 - |cos| of the angle between its relative velocity and the line to it"),
)
SQUAD = (
    Feature("rel_pos", 3, -1.5, 1.5, MAP_SIDE, "where it is, in the viewer's body frame", AHEAD_LEFT_UP),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("alive"),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points; in suites of squad detail 1 and 2, and without suites"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "in suites of squad detail 1 and 2, and without suites"),
    Feature("stability", 1, 0.0, 1.0, FULL, "in suites of squad detail 2, and without suites"),
    Feature("readiness", 1, 0.0, 1.0, "share of its weapons", "could fire now; shown as stability is"),
    Feature(
        "target_rel_pos", 3, -1.5, 1.5, MAP_SIDE,
        "its focus target, as rel_pos; in suites that see whom comrades fight (`command_suites`)",
        AHEAD_LEFT_UP, ("target_preference", "suites"),
    ),
)  # fmt: skip
EGO = (
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    flag("alive"),
    Feature("position", 3, 0.0, 1.0, "size of the map", "along each axis of the map", ("x", "y", "z")),
    Feature("yaw_sin_cos", 2, -1.0, 1.0, "", "where it faces", SIN_COS),
    Feature("hp", 1, 0.0, 1.0, FULL, "hit points"),
    Feature("leg_hp", 1, 0.0, 1.0, FULL, "hit points of the legs"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "above 1 it shuts down"),
    Feature("headroom", 1, -1.0, 1.0, "heat capacity", "1 - heat"),
    Feature("stability_risk", 1, 0.0, 1.0, FULL, "1 - stability; at 1 it falls"),
    Feature("velocity", 3, -3.0, 3.0, TEN_VOX_PER_S, "in its body frame; 0 while shut down", AHEAD_LEFT_UP),
    Feature(
        "cooldown", COOLDOWNS, 0.0, 1.0, "longest of its timer",
        "how long the weapon on a trigger, and the AMS, still wait",
        (*(trigger.name.lower() for trigger in Trigger), "ams"),
    ),
    flag("targeted", "an enemy within 8 vox has a clear line"),
    flag("under_fire", "hit within the last second"),
    flag("painted", "by an enemy pack"),
    flag("shut_down", "overheated: no control"),
    flag("critical_heat", "heat above 0.85"),
    flag("incoming_missile", "a shot in flight homes on it"),
    flag("suppressed", "stability returns slower"),
    flag("ecm", "its emitter jams", "ewar"),
    flag("eccm", "its emitter clears its team's sensors", "ewar"),
    Feature("hit_from", 2, -1.0, 1.0, "", "unit vector to where the last hit came from, in its body frame", AHEAD_LEFT),
    Feature("sensor_quality", 1, 0.0, 1.0, BEST_QUALITY, "factor on the range of its radar"),
    Feature("jam", 1, 0.0, 1.0, "full strength", "of the strongest enemy emitter at its place", (), ("ewar",)),
    Feature("acoustics", 4, 0.0, 2.0, "", "noise heard: log(1 + sum) / 5", ("ahead", "left", "behind", "right")),
    flag("in_zone"),
    Feature("zone_vector", 2, -1.5, 1.5, MAP_SIDE, "to the middle of the zone, in its body frame", AHEAD_LEFT),
    Feature("zone_radius", 1, 0.0, 1.0, MAP_SIDE),
    Feature("path_direction", 2, -1.0, 1.0, "", "next step of the way to the zone, in its body frame", AHEAD_LEFT),
    Feature("path_length", 1, 0.0, 4.0, MAP_SIDE, "walking distance to the zone, clipped"),
    Feature("own_score", 1, 0.0, 1.0, "score that wins", "of its team; the dead see it too"),
    Feature("enemy_score", 1, 0.0, 1.0, "score that wins", "of the other team; the dead see it too"),
    Feature("control", 1, -1.0, 1.0, "", "zone tick of its team less the other's; the dead see it too"),
    Feature("time", 1, 0.0, 1.0, "longest battle", "since the battle began; the dead see it too"),
    Feature(
        "sort_mode", SORT_MODES, 0.0, 1.0, "one-hot", "order of the contacts",
        SORTS, ("observation_control",), SORTS[:1],
    ),
    flag("hostile_only", "contacts are of the other team only", "observation_control"),
    Feature(
        "suite", SUITE_DESCRIPTOR, 0.0, 1.0, "", "its suite: one-hot, then its facts, each within 0..1",
        (*(suite.name.lower() for suite in Suite), "visual_slots", "sensor_factor", "fidelity", "squad_detail",
         "sees_engaged", "issues_orders", "contact_reports", "many_intel_slots"),
        ("suites",),
    ),
)  # fmt: skip
ORDER = (
    Feature("kind", len(OrderKind) - 1, 0.0, 1.0, "one-hot", "what its pack was told, as it heard it; 0 for free",
            tuple(kind.name.lower() for kind in OrderKind if kind)),
    Feature("vector", 2, -1.5, 1.5, MAP_SIDE, "to where it was sent, in its body frame", AHEAD_LEFT),
    Feature("way", 2, -1.0, 1.0, "", "next step of the way there around walls, in its body frame", AHEAD_LEFT),
    Feature("way_length", 1, 0.0, 4.0, MAP_SIDE, "walking distance until it is near enough, clipped"),
    Feature("reach", 1, 0.0, 32.0, MAP_SIDE, "how near is near enough"),
    flag("has_target", "the order names an enemy"),
    Feature("urgency", 1, 0.0, 1.0),
    Feature("discipline", len(Discipline) - 1, 0.0, 1.0, "one-hot", "when to fire; 0 for whenever it likes",
            tuple(d.name.lower() for d in Discipline if d)),
    Feature("age", 1, 0.0, 1.0, "60 s", "since the order was given, clipped"),
    flag("reached", "it is where it was sent"),
    Feature("following", 1, -1.0, 1.0, "top speed", "speed along that way, until it is there"),
)  # fmt: skip
"""What a mech was told, in the stream `order`, where `EnvConfig.command` is on."""
PLACE_ON_MAP = Feature("position", 2, 0.0, 1.0, "size of the map", "along each axis of the map", ("x", "y"))
PACK_REPORT = (
    PLACE_ON_MAP._replace(meaning="middle of its living mechs, along each axis of the map"),
    Feature("alive", 1, 0.0, 1.0, "share of its mechs"),
    Feature("hp", 1, 0.0, 1.0, "share of its full hit points"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "mean of the living"),
    Feature("spread", 1, 0.0, 1.5, MAP_SIDE, "mean distance of the living from their middle"),
    Feature("in_zone", 1, 0.0, 1.0, "share of its living mechs"),
    Feature("under_fire", 1, 0.0, 1.0, "share of its living mechs"),
    Feature("kind", len(OrderKind) - 1, 0.0, 1.0, "one-hot", "its standing order; 0 for free",
            tuple(kind.name.lower() for kind in OrderKind if kind)),
    Feature("place", 2, 0.0, 1.0, "size of the map", "of that order", ("x", "y")),
    Feature("age", 1, 0.0, 1.0, "60 s", "since that order was given, clipped"),
    Feature("heard", 1, 0.0, 1.0, "share of its living mechs", "that have heard it"),
)  # fmt: skip
"""What a commander is told of a pack of its own."""
TRACK = (
    PLACE_ON_MAP,
    Feature("velocity", 2, -6.0, 6.0, TEN_VOX_PER_S, "along each axis of the map", ("x", "y")),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    Feature(
        "from_pack", 2, -1.5, 1.5, MAP_SIDE, "from the middle of the commander's pack, along each axis", ("x", "y")
    ),
)
"""What it is told of an enemy that a mech of its team knows of."""
SITUATION = (
    Feature("zone", 2, 0.0, 1.0, "size of the map", "middle of the zone, along each axis of the map", ("x", "y")),
    Feature("zone_radius", 1, 0.0, 1.0, MAP_SIDE),
    Feature("own_score", 1, 0.0, 1.0, "score that wins"),
    Feature("enemy_score", 1, 0.0, 1.0, "score that wins"),
    Feature("control", 1, -1.0, 1.0, "", "zone tick of its team less the other's"),
    Feature("time", 1, 0.0, 1.0, "longest battle", "since the battle began"),
    flag("is_heard", "an order given now is sent"),
)
"""What it is told of the battle."""
COMMAND = {"blue": "blue_command", "red": "red_command"}
"""The commanders of each team as an agent group, one for each pack, where `EnvConfig.command` is on."""
GIVEN = (
    Feature("kind", len(OrderKind), -1.0, 1.0, "", "wish for this order: the highest above 0; none keeps the last",
            tuple(kind.name.lower() for kind in OrderKind)),
    Feature("place", 2, -1.0, 1.0, "half of the map's side", "from the middle of the map", ("x", "y")),
    Feature("urgency", 1, -1.0, 1.0, "", "-1 and 1 are told as 0 and 1"),
    Feature("fire", len(Discipline), -1.0, 1.0, "", "wish for when to fire: the highest",
            tuple(d.name.lower() for d in Discipline)),
)  # fmt: skip
"""A commander's action for its pack; `target`, a wish for each enemy, follows."""
CONTROL = (
    Feature("forward", 1, -1.0, 1.0, "top speed", "throttle; with strafe at most 1 long"),
    Feature("strafe", 1, -1.0, 1.0, "top speed", "throttle to the left"),
    Feature("vertical", 1, -1.0, 1.0, "full thrust", "of the jets of hulls that have them; below 0 counts as 0"),
    Feature("yaw_rate", 1, -1.0, 1.0, "top yaw rate", "turns left above 0"),
    Feature("primary", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    Feature("vent", 1, -1.0, 1.0, "", "above 0 sheds heat and fires nothing"),
    Feature("secondary", 1, -1.0, 1.0, "", "above 0 fires; on hulls with emitters above 0 ECM, above 0.5 ECCM"),
    Feature("tertiary", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    Feature("special", 1, -1.0, 1.0, "", "above 0 fires the weapons on this trigger"),
    *(
        Feature(f"prefer_{slot}", 1, -1.0, 1.0, "", f"wish for contact {slot} as focus target: the highest above 0", (),
                ("target_preference",))
        for slot in range(PREFERENCES)
    ),
    *(
        Feature(f"sort_{mode}", 1, -1.0, 1.0, "", "wish for this order of the contacts: the highest of three", (),
                ("observation_control",))
        for mode in SORTS
    ),
    Feature("hostile_only", 1, -1.0, 1.0, "", "above 0 shows contacts of the other team only", (),
            ("observation_control",)),
)  # fmt: skip
"""The controls of an action, in the order of `Act`; the message follows."""
OF_THE_DEAD = ("own_score", "enemy_score", "control", "time")
"""Ego features a dead mech still shows."""


def width(features: tuple[Feature, ...]) -> int:
    """Columns of a stream."""
    return sum(feature.width for feature in features)


def bounds(features: tuple[Feature, ...]) -> tuple[Tensor, Tensor]:
    """`[F]` lowest and `[F]` highest value of each column."""
    ends = [(f.low, f.high) for f in features for _ in range(f.width)]
    low, high = torch.tensor(ends, dtype=torch.float32, device="cpu").T
    return low, high


def columns(features: tuple[Feature, ...], name: str) -> slice:
    """Where a feature sits in its stream, as a slice of the last axis.

    Args:
        features: those of the stream: `EGO`, `CONTACT`, `SQUAD`, ... of this module.
        name: of the feature, as docs/COLUMNS.md has it.

    Raises:
        KeyError: the stream has none of that name.
    """
    start = 0
    for feature in features:
        if feature.name == name:
            return slice(start, start + feature.width)
        start += feature.width
    raise KeyError(f"no feature {name!r}, expected one of {[f.name for f in features]}")


def pack(
    features: tuple[Feature, ...], values: dict[str, Tensor], visible: Tensor, always: Collection[str] = ()
) -> Tensor:
    """Lay named values out as columns, in the order of `features`.

    Args:
        values: for each feature `[..., width]`, or `[...]` where its width is 1.
        visible: `[...]` bool; the other rows are zero.
    """

    def column(name: str) -> Tensor:
        value = values[name] if values[name].dim() > visible.dim() else values[name][..., None]
        value = value.to(torch.float32)
        # Zeroed one by one: a pass over all columns at the end would read and write them once more.
        return value if name in always else torch.where(visible[..., None], value, 0.0)

    return torch.cat([column(feature.name) for feature in features], -1)


def streams(comm_dim: int) -> dict[str, tuple[Feature, ...]]:
    """The columns of the action and of every stream, grids flattened."""
    message = Feature("message", comm_dim, -1.0, 1.0, "", "to the pack, heard one decision later", (), ("comms",))
    return {
        "action": (*CONTROL, message),
        "contacts": CONTACT,
        "squad": SQUAD,
        "ego": EGO,
        "comms": (message._replace(meaning="what a packmate said in the last decision; one's own row is 0"),),
        "local_map": (
            Feature("blocked", LOCAL_MAP_CELLS**2, 0.0, 1.0, "flag", "the hull cannot walk there, nor step up"),
        ),
        "telemetry": (Feature("height", TELEMETRY_CELLS**2, 0.0, 1.0, "height of the map", "seen from above"),),
    }


def command_streams(enemies: int) -> dict[str, tuple[Feature, ...]]:
    """The columns of a commander's action and streams, against so many enemies."""
    meaning = "wish for this enemy, if known, as the target of an attack: the highest above 0"
    target = Feature("target", enemies, -1.0, 1.0, "", meaning)
    return {"action": (*GIVEN, target), "packs": PACK_REPORT, "tracks": TRACK, "situation": SITUATION}


def describe(comm_dim: int) -> dict[str, list[list[object]]]:
    """The whole layout as plain JSON values; a checkpoint stores it and its hash."""
    return {name: [list(feature[:4]) for feature in features] for name, features in streams(comm_dim).items()}


def layout_hash(comm_dim: int) -> str:
    """sha256 of `describe`: equal layouts, equal hashes."""
    return hashlib.sha256(json.dumps(describe(comm_dim), sort_keys=True).encode()).hexdigest()


def action_width(comm_dim: int) -> int:
    """Numbers in an action, D."""
    return CONTROLS + comm_dim
