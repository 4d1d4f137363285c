"""What is kept of a battle: its moments, decision by decision, and what happened between them, tick by tick.

Everything is a numpy array of whole numbers, as it stands in the file; the units tell how to read them. T decisions
make T + 1 moments, the opening being moment 0; decision d leads from moment d to moment d + 1. A tick is a substep:
tick k is the (k + 1)-th substep of the battle, so moment m is the state before tick m * `decision_repeat`.
"""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

POS_PER_VOX = 64
"""Positions are kept in 1/64 vox, which an int16 holds on the largest map."""
YAW_PER_RAD = 8192
"""Angles, within -pi .. pi, in 1/8192 rad."""
POINTS = 128
"""Hit points, heat and stability in 1/128 points."""
SCORE_PER_S = 1024
"""Scores in 1/1024 s."""
REWARD_UNITS = 1 << 16
"""Rewards and values in 1/65536; what lies beyond +-32767 is kept as that."""
NO_VALUE = -(2**31)
"""In `Battle.values`: no policy said a value."""
NOBODY = -1
"""An index that names no mech, and no weapon."""
RECORD = 2
"""What is kept of a battle, `record` of `Replay.about`."""


class Fact(IntFlag):
    """Bits of `Battle.facts`: how a mech fares at a moment."""

    ALIVE = 1
    FALLEN = 2
    SHUT_DOWN = 4
    LEGGED = 8
    SUPPRESSED = 16
    VENTING = 32
    ECM = 64
    ECCM = 128
    IN_ZONE = 256
    UNDER_FIRE = 512


class Shown(IntFlag):
    """Bits of `Battle.contact_facts`: how a cockpit shows a contact."""

    HOSTILE = 1
    INTEL = 2
    """Told by packmates, not sensed by the mech itself."""
    DETAIL = 4
    """With hit points, heat and stability."""
    PAINTED = 8
    SIGHT = 16
    """Known by a clear line within the sight range."""
    RADAR = 32
    """Known by radar, through walls and smoke."""
    PAINT = 64
    """Known by the paint of its own pack."""
    BLOOM = 128
    """Known by its heat, or by its jamming."""


class Condition(IntEnum):
    """What began or ended for a mech, `Battle.conditions`."""

    SHUT_DOWN = 0
    """Its heat rose above its capacity."""
    RESTARTED = 1
    FELL = 2
    """It was knocked down."""
    STOOD_UP = 3
    LEGGED = 4
    """Its legs were shot off."""


class Switch(IntFlag):
    """Bits of `Battle.switches`: what a mech was ordered to do beside moving and firing."""

    VENT = 1
    ECM = 2
    ECCM = 4
    HOSTILE_ONLY = 8
    SORT_BIGGEST = 16
    SORT_MOST_DAMAGED = 32


class Met(IntEnum):
    """What ended a flight."""

    NOTHING = 0
    """Its time was up, or it left the map."""
    MECH = 1
    VOXEL = 2
    FLOOR = 3
    AMS = 4
    """Destroyed in flight by an AMS of the other team."""
    BATTLE_END = 5
    """Still in flight when the battle ended."""


BEAMS = ("tick", "shooter", "target", "weapon", "x0", "y0", "z0", "x1", "y1", "z1")
"""Columns of `Battle.beams`: beams that fired, from hull centre to where they struck."""
FLIGHTS = ("launch_tick", "end_tick", "shooter", "weapon", "lock", "met", "victim", "first", "points", "by")
"""Columns of `Battle.flights`: every shot that flew. `lock` is whom a homing shot turns to, `victim` whom the shot hit,
`by` the mech whose AMS destroyed it.

Its way is the `points` rows of `Battle.waypoints` from row `first` on, spaced evenly in time from the moment of its
launch, the end of tick `launch_tick`, to that of its end, the end of tick `end_tick`: two for what flies straight.
"""
HARMS = ("tick", "shooter", "target", "damage", "weapon")
"""Columns of `Battle.harms`: hit points (1/128) that one mech took from another with a weapon in a tick, splash on
comrades included. Lava and burning debris are nobody's and not listed."""
DEATHS = ("tick", "victim", "killer", "weapon")
"""Columns of `Battle.deaths`: killer `NOBODY` for lava; weapon is the one that did most in that tick."""
CONDITIONS = ("tick", "mech", "condition")
"""Columns of `Battle.conditions`: a `Condition` that a mech entered in a tick, as the statistics count them."""
CLOUDS = ("tick", "end_tick", "owner", "x", "y", "z")
"""Columns of `Battle.clouds`: smoke, from the end of `tick` to that of `end_tick`."""
VOXELS = ("decision", "x", "y", "z", "material")
"""Columns of `Battle.voxels`: what a voxel was made of from moment `decision` + 1 on."""
TABLES = {
    "beams": BEAMS,
    "flights": FLIGHTS,
    "harms": HARMS,
    "deaths": DEATHS,
    "conditions": CONDITIONS,
    "clouds": CLOUDS,
    "voxels": VOXELS,
}
"""The event tables of a battle, int32 [rows, columns] each, ordered by their first column."""
OPTIONAL = ("values", "orders", "commands")
"""Arrays that a file may lack: values, where no policy has a value head; orders, where packs are given none; commands,
where nobody speaks."""
ORDER_PLACE = slice(1, 3)
"""Columns of `Battle.orders` that are places, 1/64 vox."""


@dataclass(frozen=True)
class Battle:
    """One battle. N mechs, blue first; P packs; C contact slots; F ego columns."""

    about: dict[str, Any]
    """`blue`, `red`: who commanded; `seed`; `map`: its recipe, `seed` and `sha256`, or `position`, which of those
    of `Replay.about["env"]` it began in; `zone`: x, y and radius, vox;
    `outcome`: `winner` (blue, red, draw, running), `reason`, `score` [2] s, `stats` {name: [blue, red]}."""
    pos: np.ndarray
    """[T + 1, N, 3] int16, hull centre, 1/64 vox."""
    yaw: np.ndarray
    """[T + 1, N] int16, 1/8192 rad, 0 = +x, counter-clockwise."""
    hp: np.ndarray
    """[T + 1, N] int16, 1/128 points, 0 when dead."""
    leg_hp: np.ndarray
    """[T + 1, N] int16, 1/128 points."""
    heat: np.ndarray
    """[T + 1, N] uint16, 1/128 points."""
    stability: np.ndarray
    """[T + 1, N] int16, 1/128 points."""
    facts: np.ndarray
    """[T + 1, N] uint16, bits of `Fact`."""
    paint: np.ndarray
    """[T + 1, N] uint8, bit p: painted by pack p."""
    focus: np.ndarray
    """[T + 1, N] int8: the mech it prefers to aim at, as ordered in the decision before the moment, or `NOBODY`."""
    contacts: np.ndarray
    """[T + 1, N, C] int8: the mech in each slot of the contact table its cockpit shows, `NOBODY` for an empty slot."""
    contact_facts: np.ndarray
    """[T + 1, N, C] uint8, bits of `Shown`."""
    lines: np.ndarray
    """[T + 1, N, ceil(N / 8)] uint8: bit j of the row, little end first: a clear line to mech j."""
    ego: np.ndarray
    """[T + 1, N, F] uint8: the ego stream, each column 0..255 over its range in the layout (`Replay.about["ego"]`)."""
    messages: np.ndarray
    """[T + 1, N, comm_dim] int8: what each mech said in the decision before the moment, 127 for 1."""
    moves: np.ndarray
    """[T + 1, N, 4] int8, 127 for 1: throttle ahead and to the left, jets, and turn to the left, as ordered in the
    decision before the moment."""
    triggers: np.ndarray
    """[T + 1, N] uint16, bit w: the trigger of weapon w was held in the decision before the moment."""
    switches: np.ndarray
    """[T + 1, N] uint8, bits of `Switch` in the decision before the moment."""
    score: np.ndarray
    """[T + 1, 2] int32, 1/1024 s of zone control, blue and red."""
    control: np.ndarray
    """[T + 1, 2] uint8: zone tick of each team, 255 for 1."""
    beams: np.ndarray
    flights: np.ndarray
    waypoints: np.ndarray
    """[rows, 3] int16, 1/64 vox."""
    harms: np.ndarray
    deaths: np.ndarray
    conditions: np.ndarray
    clouds: np.ndarray
    voxels: np.ndarray
    rewards: np.ndarray
    """[T + 1, 2] int32, 1/65536: reward of the decision before the moment, mean over all mechs of blue and of red."""
    values: np.ndarray | None = None
    """[T + 1, 2] int32, 1/65536: value that the policies of blue and of red estimate at the moment, mean over the
    living, in the normalised units of the critic; `NO_VALUE` for a policy without one, and at the last moment."""
    orders: np.ndarray | None = None
    """[T + 1, N, K] int32: what each mech was told last, by the columns of `echelon.rules.orders.OrderField`; places in
    1/64 vox, urgency in whole numbers, and -1 for the substep of an order that was never given."""
    commands: np.ndarray | None = None
    """[ceil(T / period), P, D] float32 in -1..1: what the commanders of both teams told each pack, in the columns of
    `echelon.rules.orders`, before the decisions in which they are heard, each `CommandConfig.period`-th."""
    observations: dict[str, np.ndarray] = field(default_factory=dict)
    """Where they were asked for: each stream as every mech observed it, [T + 1, N, ...] float16 or bool."""

    @property
    def decisions(self) -> int:
        """T, how many decisions were played."""
        return len(self.pos) - 1


@dataclass(frozen=True)
class Replay:
    """The battles of one file and what they have in common."""

    about: dict[str, Any]
    """`record`: what is kept, `RECORD`; `env`: the settings of the battles; `dt_s`,
    `decision_repeat`; `size` [3] vox; `teams` {name: [first, last + 1]};
    `mechs`: for each the names of its `hull`, `team`, `suite` (or `none`) and `weapons`, `pack`, `size` [3], `hp`,
    `leg_hp`, `heat_cap`, `squad` (the mechs in its squad slots), `squad_detail`, `sees_engaged`; `hulls`, `weapons`,
    `materials`: names by index;
    `weapon_specs` {name: `range_vox`, `arc_deg`, `effect`, `look`, `colour`, `damage`, `self_heat`, `target_heat`};
    `ego`: the columns of the ego stream, [name, width, low, high] each;
    `stability_cap`; `zone_score_to_win_s`; `sight_range_vox`; `cloud_vox`."""
    battles: list[Battle]
