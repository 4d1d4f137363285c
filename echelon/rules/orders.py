"""Orders from a commander to packs, as data: what can be told, in which columns, and how it reaches the mechs."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from echelon.rules import limits
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import SHARE, Limits, Settings

MOST_ON_THEIR_WAY = 64
"""Orders to one pack that a battle keeps until they arrive."""


class OrderKind(IntEnum):
    """What a pack is told to do."""

    FREE = 0
    """As it would without orders."""
    HOLD = 1
    """Stay where the pack is."""
    MOVE = 2
    """Go to the place."""
    ATTACK = 3
    """Go for the target, or for the place where none is named."""
    DEFEND = 4
    """Hold the ground about the place, twice as far around as for a move."""
    SCREEN = 5
    """Stand between the place and the nearest known enemy."""
    REGROUP = 6
    """Gather where the middle of the pack is."""


class Discipline(IntEnum):
    """When a pack may pull triggers."""

    FREE = 0
    RETURN = 1
    """While it is under fire."""
    HOLD = 2


class OrderField(IntEnum):
    """Columns of an order in a state, all float32: the K of `State.orders_sent` and `State.orders_heard`."""

    KIND = 0
    """An `OrderKind`."""
    X = 1
    """Of the place, vox."""
    Y = 2
    TARGET = 3
    """Index of the enemy to attack, -1 for none."""
    URGENCY = 4
    """0..1."""
    DISCIPLINE = 5
    """A `Discipline`."""
    ISSUED = 6
    """Substep at which it was given, -1 for never."""


PLACE = slice(OrderField.X, OrderField.Y + 1)


KINDS = slice(0, len(OrderKind))
"""First columns of a commander's action for one pack, each within -1..1: a wish for each kind of order, of which the
highest above 0 is given, and none keeps the standing order."""


class OrderAction(IntEnum):
    """The columns behind `KINDS`."""

    X = KINDS.stop
    """Of the place: -1 and 1 are the edges of the map."""
    Y = X + 1
    URGENCY = Y + 1
    """-1 and 1 stand for 0 and 1."""


DISCIPLINES = slice(OrderAction.URGENCY + 1, OrderAction.URGENCY + 1 + len(Discipline))
"""Wishes for a discipline, of which the highest is given."""
TARGETS = DISCIPLINES.stop
"""The first wish for an enemy as target; the highest above 0 is named."""


@dataclass(frozen=True)
class CommandConfig(Settings):
    """Orders to packs, and the net that carries them. Switched off, no tensor is made for them.

    Raises:
        ConfigError: a number is outside its limits, or more orders would be on their way than a battle keeps.
    """

    enabled: bool = False
    """Packs can be given orders."""
    period: Annotated[int, Limits(1, 1000, "decisions")] = 8
    """A commander is heard every so many decisions; in between its actions count for nothing."""
    delay_s: Annotated[float, Limits(0, 60, "s")] = 0.0
    """How long an order is on its way."""
    range_vox: Annotated[float, limits.RANGE] = 30.0
    """How near a mech must be to a living one whose suite issues orders to its pack. Where no suite does, as without
    `command_suites`, orders come from outside the map and are heard everywhere."""
    jam_limit: Annotated[float, SHARE] = 0.5
    """Jamming above which a mech hears no orders; it hears them once it is out of it."""
    reach_vox: Annotated[float, Limits(1, 1000, "vox")] = 6.0
    """How near to its place a mech has reached it."""
    steers: bool = True
    """A mech with a place to go to is shown it where `ego` tells of the zone, and its triggers are dead where its
    orders hold fire: whoever walks to the zone, scripted or trained without orders, then does what it is told. Off:
    orders are told in the stream `order` alone, and nobody need follow."""
    drill_s: Annotated[float, limits.SECONDS] = 0.0
    """Every so many seconds each pack that nobody commands is sent to a place drawn at random, to train those who
    follow; 0: never."""

    __repr__ = short_repr

    def queue(self, decision_s: float) -> int:
        """Orders to one pack that can be on their way at once, the newest one included."""
        count = math.ceil(self.delay_s / (self.period * decision_s)) + 1
        limit = f"at most {MOST_ON_THEIR_WAY - 1} periods of {self.period * decision_s:g} s"
        require(count <= MOST_ON_THEIR_WAY, "CommandConfig.delay_s", limit, self.delay_s)
        return count


def action_width(enemies: int) -> int:
    """Numbers in a commander's action for one pack, of which the last name a target among `enemies`."""
    return TARGETS + enemies
