"""Contents of a recorded battle: its moments, one after each decision, and the events in the ticks between them.

All values are NumPy arrays of integers, as in the file; units such as `POS_PER_VOX` convert them. A battle of T
decisions has T + 1 moments; moment 0 is the battle's start. Decision d leads from moment d to moment d + 1. A tick is a
substep of the simulation: tick k is the (k + 1)-th substep of the battle, so moment m is the state before tick m *
`decision_repeat`.
"""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

POS_PER_VOX = 64
"""Positions are stored in 1/64 vox, which fits an int16 on the largest map."""
YAW_PER_RAD = 8192
"""Angles, in -pi .. pi, are stored in 1/8192 rad."""
POINTS = 128
"""Hit points, heat and stability are stored in 1/128 points."""
SCORE_PER_S = 1024
"""Scores are stored in 1/1024 s."""
REWARD_UNITS = 1 << 16
"""Rewards and values are stored in 1/65536, and clamped to +-32767."""
NO_VALUE = -(2**31)
"""In `Battle.values`: the policy has no value."""
NO_INDEX = -1
"""Index for no mech or no weapon."""
RECORD = 2
"""Version of a battle's contents, `record` of `Replay.about`."""


class Fact(IntFlag):
    """Bits of `Battle.facts`: the condition of a mech at a moment."""

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
    """Bits of `Battle.contact_facts`: the properties of a contact (a mech that another mech observes)."""

    HOSTILE = 1
    INTEL = 2
    """Reported by packmates, not sensed by the mech itself."""
    DETAIL = 4
    """Hit points, heat and stability are shown."""
    PAINTED = 8
    SIGHT = 16
    """Sensed by a clear line within the sight range."""
    RADAR = 32
    """Sensed by radar, through walls and smoke."""
    PAINT = 64
    """Sensed because its own pack painted it."""
    BLOOM = 128
    """Sensed by its heat, or by its jamming."""


class Condition(IntEnum):
    """A condition that a mech entered or left, in `Battle.conditions`."""

    SHUT_DOWN = 0
    """Its heat rose above its capacity."""
    RESTARTED = 1
    FELL = 2
    """It was knocked down."""
    STOOD_UP = 3
    LEGGED = 4
    """Its legs were destroyed."""


class Switch(IntFlag):
    """Bits of `Battle.switches`: the controls that a mech used, besides movement and fire."""

    VENT = 1
    ECM = 2
    ECCM = 4
    HOSTILE_ONLY = 8
    SORT_BIGGEST = 16
    SORT_MOST_DAMAGED = 32


class FlightEnd(IntEnum):
    """Why a shot's flight ended."""

    NOTHING = 0
    """Its lifetime ended, or it left the map."""
    MECH = 1
    VOXEL = 2
    FLOOR = 3
    AMS = 4
    """Destroyed in flight by an AMS of the other team."""
    BATTLE_END = 5
    """Still in flight when the battle ended."""


BEAMS = ("tick", "shooter", "target", "weapon", "x0", "y0", "z0", "x1", "y1", "z1")
"""Columns of `Battle.beams`: beams that were fired, from hull centre to the hit point."""
FLIGHTS = ("launch_tick", "end_tick", "shooter", "weapon", "lock", "met", "victim", "first", "points", "by")
"""Columns of `Battle.flights`: every shot that flew. `lock` is the target of a homing shot, `victim` the mech that was
hit, `by` the mech whose AMS destroyed the shot.

Its path is the `points` rows of `Battle.waypoints` starting at row `first`. They are equally spaced in time, from the
end of tick `launch_tick` to the end of tick `end_tick`; a straight flight has two.
"""
HARMS = ("tick", "shooter", "target", "damage", "weapon")
"""Columns of `Battle.harms`: damage (1/128 hit points) by one mech to another with a weapon in a tick, including splash
on comrades. Damage from lava and burning debris has no shooter and is not listed."""
DEATHS = ("tick", "victim", "killer", "weapon")
"""Columns of `Battle.deaths`: killer `NO_INDEX` for lava; weapon is the one with the most damage in that tick."""
CONDITIONS = ("tick", "mech", "condition")
"""Columns of `Battle.conditions`: a `Condition` of a mech in a tick, counted as in the statistics."""
CLOUDS = ("tick", "end_tick", "owner", "x", "y", "z")
"""Columns of `Battle.clouds`: smoke from the end of `tick` to the end of `end_tick`."""
VOXELS = ("decision", "x", "y", "z", "material")
"""Columns of `Battle.voxels`: material of a voxel from moment `decision` + 1 on."""
TABLES = {
    "beams": BEAMS,
    "flights": FLIGHTS,
    "harms": HARMS,
    "deaths": DEATHS,
    "conditions": CONDITIONS,
    "clouds": CLOUDS,
    "voxels": VOXELS,
}
"""Event tables of a battle, int32 [rows, columns] each, sorted by their first column."""
OPTIONAL = ("values", "orders", "commands")
"""Arrays that a file may lack: values without a value head; orders and commands if `EnvConfig.command` is off or no
commander gave any."""
ORDER_PLACE = slice(1, 3)
"""Columns of `Battle.orders` that are places, 1/64 vox."""


@dataclass(frozen=True)
class Battle:
    """One recorded battle.

    The arrays have N mechs (blue first), P packs, C contact slots and F columns of the ego stream (own condition).
    """

    about: dict[str, Any]
    """`blue`, `red`: names of the commanders; `seed`; `map`: its recipe, `seed` and `sha256`, or `position`, the index
    of its initial position in `Replay.about["env"]`; `zone`: x, y and radius, vox;
    `outcome`: `winner` (blue, red, draw, running), `reason`, `score` [2] s, `stats` {name: [blue, red]}."""
    pos: np.ndarray
    """[T + 1, N, 3] int16, hull centre, 1/64 vox."""
    yaw: np.ndarray
    """[T + 1, N] int16, 1/8192 rad, 0 = +x, counter-clockwise."""
    hp: np.ndarray
    """[T + 1, N] int16, 1/128 points, 0 for dead mechs."""
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
    """[T + 1, N] int8: preferred target in the decision before the moment, or `NO_INDEX`."""
    contacts: np.ndarray
    """[T + 1, N, C] int8: the mech in each contact slot, `NO_INDEX` for an empty slot."""
    contact_facts: np.ndarray
    """[T + 1, N, C] uint8, bits of `Shown`."""
    lines: np.ndarray
    """[T + 1, N, ceil(N / 8)] uint8: bit j of the row, little end first: a clear line to mech j."""
    ego: np.ndarray
    """[T + 1, N, F] uint8: the ego stream, each column scaled from its range in `Replay.about["ego"]` to 0..255."""
    messages: np.ndarray
    """[T + 1, N, comm_dim] int8: message of each mech in the decision before the moment, 127 for 1."""
    moves: np.ndarray
    """[T + 1, N, 4] int8, 127 for 1: throttle ahead and left, jets, and left turn in the decision before the moment."""
    triggers: np.ndarray
    """[T + 1, N] uint16, bit w: the trigger of weapon w was held in the decision before the moment."""
    switches: np.ndarray
    """[T + 1, N] uint8, bits of `Switch` in the decision before the moment."""
    score: np.ndarray
    """[T + 1, 2] int32, 1/1024 s of zone control, blue and red."""
    control: np.ndarray
    """[T + 1, 2] uint8: zone tick of blue and red, 255 for 1."""
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
    """[T + 1, 2] int32, 1/65536: value estimate of the policies of blue and red at the moment, mean over living mechs,
    in the critic's normalised units; `NO_VALUE` without a critic, and at the last moment."""
    orders: np.ndarray | None = None
    """[T + 1, N, K] int32: order of each mech, in the columns of `echelon.rules.orders.OrderField`; places in 1/64 vox,
    urgency rounded to integers, and -1 for the substep of an order that was never issued."""
    commands: np.ndarray | None = None
    """[ceil(T / period), P, D] float32 in -1..1: commands of both teams' commanders to each pack, in the columns of
    `echelon.rules.orders`, for every `CommandConfig.period`-th decision, in which they are sent."""
    observations: dict[str, np.ndarray] = field(default_factory=dict)
    """Optional: each stream as observed by every mech, [T + 1, N, ...] float16 or bool."""

    @property
    def decisions(self) -> int:
        """T, the number of decisions."""
        return len(self.pos) - 1


@dataclass(frozen=True)
class Replay:
    """The battles of one replay file, and the data that all of them share."""

    about: dict[str, Any]
    """`record`: version of the contents, `RECORD`; `env`: settings of the battles; `dt_s`,
    `decision_repeat`; `size` [3] vox; `teams` {name: [first, last + 1]};
    `mechs`: per mech the names of its `hull`, `team`, `suite` (or `none`) and `weapons`, `pack`, `size` [3], `hp`,
    `leg_hp`, `heat_cap`, `squad` (the mechs in its squad slots), `squad_detail`, `sees_engaged`; `hulls`, `weapons`,
    `materials`: names by index;
    `weapon_specs` {name: `range_vox`, `arc_deg`, `effect`, `look`, `colour`, `damage`, `self_heat`, `target_heat`};
    `ego`: columns of the ego stream, [name, width, low, high] each;
    `stability_cap`; `zone_score_to_win_s`; `sight_range_vox`; `cloud_vox`."""
    battles: list[Battle]
