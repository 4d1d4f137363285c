"""Orders from a commander to packs (groups of mechs): kinds of orders, columns of orders and of commands, and their
transmission."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from echelon.rules import limits
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import SHARE, Limits, Settings

MOST_ON_THEIR_WAY = 64
"""Maximum number of orders in transit to one pack."""


class OrderKind(IntEnum):
    """Kinds of orders that a commander gives to a pack of mechs."""

    FREE = 0
    """Act as without orders."""
    HOLD = 1
    """Stay at the current position."""
    MOVE = 2
    """Go to the place."""
    ATTACK = 3
    """Attack the target, or go to the place if the order has no target."""
    DEFEND = 4
    """Stay around the place, within twice the radius of a move."""
    SCREEN = 5
    """Stay between the place and the nearest known enemy."""
    REGROUP = 6
    """Gather at the centre of the pack."""


class Discipline(IntEnum):
    """When a pack may fire."""

    FREE = 0
    """Always."""
    RETURN = 1
    """Only while under fire."""
    HOLD = 2
    """Never."""


class OrderField(IntEnum):
    """Columns of an order in a state, all float32: the last dimension of `State.orders_sent` and
    `State.orders_heard`."""

    KIND = 0
    """An `OrderKind`."""
    X = 1
    """x of the place, vox."""
    Y = 2
    """y of the place, vox."""
    TARGET = 3
    """Index of the enemy to attack, -1 for none."""
    URGENCY = 4
    """Urgency in 0..1."""
    DISCIPLINE = 5
    """A `Discipline`."""
    ISSUED = 6
    """Substep at which the order was issued, -1 for none."""


PLACE = slice(OrderField.X, OrderField.Y + 1)


KINDS = slice(0, len(OrderKind))
"""First columns of a commander's action for one pack: a preference in -1..1 for each kind of order. The highest
preference above 0 is issued; without one the current order stays."""


class OrderAction(IntEnum):
    """Columns of a commander's action that follow `KINDS`, the columns for the kinds of orders."""

    X = KINDS.stop
    """x of the place; -1 and 1 are the edges of the map."""
    Y = X + 1
    """y of the place; -1 and 1 are the edges of the map."""
    URGENCY = Y + 1
    """Urgency; -1 and 1 mean 0 and 1."""


DISCIPLINES = slice(OrderAction.URGENCY + 1, OrderAction.URGENCY + 1 + len(Discipline))
"""Columns of preferences for a discipline. The highest is issued."""
TARGETS = DISCIPLINES.stop
"""First column of preferences for each enemy as target. The highest above 0 is the target."""


@dataclass(frozen=True)
class CommandConfig(Settings):
    """Orders to packs and their radio network. If orders are disabled, the order tensors are empty.

    Raises:
        ConfigError: if a value is outside its limits, or more orders could be in transit than a battle can store.
    """

    enabled: bool = False
    """Packs can receive orders."""
    period: Annotated[int, Limits(1, 1000, "decisions")] = 8
    """Number of decisions between two actions of a commander. Actions in between are ignored."""
    delay_s: Annotated[float, Limits(0, 60, "s")] = 0.0
    """Transmission delay of an order, s."""
    range_vox: Annotated[float, limits.RANGE] = 30.0
    """Maximum distance of a mech from a living mech whose suite issues orders to its pack, vox. If no suite issues
    orders, as without `command_suites`, orders come from outside the map and reach every mech."""
    jam_limit: Annotated[float, SHARE] = 0.5
    """Jamming above which a mech receives no orders. It receives them as soon as the jamming is lower."""
    reach_vox: Annotated[float, Limits(1, 1000, "vox")] = 6.0
    """Distance from its place at which a mech has reached it, vox."""
    steers: bool = True
    """Orders replace the zone in the stream `ego` by the place of the order, and block the triggers if they hold fire.
    Policies that walk to the zone, even if trained without orders, then follow orders. If disabled, orders are only
    observed, in the stream `order`."""
    drill_s: Annotated[float, limits.SECONDS] = 0.0
    """Period of random orders to each pack without a commander, s, to train following. 0: no such orders."""

    __repr__ = short_repr

    def queue(self, decision_s: float) -> int:
        """Return the maximum number of orders that are on their way to one pack, including the newest one.

        Args:
            decision_s: duration of a decision, s.

        Raises:
            ConfigError: if the number is above `MOST_ON_THEIR_WAY`.
        """
        count = math.ceil(self.delay_s / (self.period * decision_s)) + 1
        limit = f"at most {MOST_ON_THEIR_WAY - 1} periods of {self.period * decision_s:g} s"
        require(count <= MOST_ON_THEIR_WAY, "CommandConfig.delay_s", limit, self.delay_s)
        return count


def action_width(enemies: int) -> int:
    """Return the number of columns of a commander's action for one pack; the last `enemies` columns select a target."""
    return TARGETS + enemies
