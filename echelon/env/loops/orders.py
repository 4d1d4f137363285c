"""What the numbers of an action order each mech to do. See `rules/actions.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.rules.actions import CONTROLS, PREFERENCES, SORT_MODES, Act
from echelon.sim.kernels.dispatch import ONE, ZERO, called
from echelon.sim.loops.arithmetic import length_2, positive

FORWARD, STRAFE, VERTICAL, YAW_RATE = int(Act.FORWARD), int(Act.STRAFE), int(Act.VERTICAL), int(Act.YAW_RATE)
VENT, SECONDARY, FIRST_PREFERENCE = int(Act.VENT), int(Act.SECONDARY), int(Act.PREFER_0)
FIRST_SORT_MODE, HOSTILE_ONLY = int(Act.SORT_CLOSEST), int(Act.HOSTILE_ONLY)


@called
def heard(number: Any) -> Any:
    """A number of an action: 0 if it is not finite, at most 1 and at least -1."""
    return min(max(number, -ONE), ONE) if np.isfinite(number) else ZERO


@called
def focus_target(action: Any, focus_slots: Any) -> Any:
    """`actions.focus_target` of one mech."""
    best, target = ZERO, -1
    for place in range(PREFERENCES):
        wish = heard(action[FIRST_PREFERENCE + place])
        if focus_slots[place] >= 0 and wish > best:
            best = wish
            target = focus_slots[place]
    return target


@called
def sort_mode(action: Any) -> Any:
    """The first of the sort modes that are wished for most."""
    best, chosen = heard(action[FIRST_SORT_MODE]), 0
    for mode in range(1, SORT_MODES):
        wish = heard(action[FIRST_SORT_MODE + mode])
        if wish > best:
            best = wish
            chosen = mode
    return chosen


@called
def decode(actions: Any, focus_slots: Any, orders: Any, tally: Any, hulls: Any, rules: Any) -> None:
    """`actions.decode` of one battle, but for the messages; counts what is not finite in `tally`."""
    for n in range(orders.shape[0]):
        action, order, hull = actions[n], orders[n], hulls[n]
        bad = ZERO
        for column in range(action.shape[0]):
            if not np.isfinite(action[column]):
                bad += ONE
        tally[n].bad_actions += bad
        ahead, left = heard(action[FORWARD]), heard(action[STRAFE])
        speed = max(length_2(ahead, left), ONE)
        order.throttle[0], order.throttle[1] = ahead / speed, left / speed
        order.thrust = positive(heard(action[VERTICAL])) if hull.jet > ZERO else ZERO
        order.turn = heard(action[YAW_RATE])
        order.vent = heard(action[VENT]) > ZERO
        secondary = heard(action[SECONDARY])
        emits = rules.ewar and hull.has_ewar and secondary > ZERO
        order.eccm = emits and secondary > rules.eccm_trigger
        order.ecm = emits and not order.eccm
        for weapon in range(rules.num_weapons):
            column = hull.trigger_column[weapon]
            order.fire[weapon] = 1 if column >= 0 and heard(action[max(column, 0)]) > ZERO else 0
        order.focus = focus_target(action, focus_slots[n]) if rules.target_preference else -1
        order.sort_mode = sort_mode(action) if rules.observation_control else 0
        order.hostile_only = rules.observation_control and heard(action[HOSTILE_ONLY]) > ZERO


@called
def pass_messages(actions: Any, mechs: Any, messages: Any, rules: Any) -> None:
    """What the living say, after the substeps: `messages [N, comm_dim]`."""
    for n in range(mechs.shape[0]):
        for number in range(messages.shape[1]):
            said = heard(actions[n, CONTROLS + number]) * (ONE if rules.comms else ZERO)
            messages[n, number] = said * (ONE if mechs[n].hp > ZERO else ZERO)
