"""Decode actions of mechs into orders and messages. See `rules/actions.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim.loops.arithmetic import length_2, positive
from echelon.sim.loops.lanes import Lane, first, stride
from echelon.sim.loops.records import Hulls, Mechs, Orders, Rules, TallyRow


@device_function
def clipped(number: Any) -> Any:
    """Return an action value clamped to [-1, 1], or 0 if it is NaN or infinite."""
    return min(max(number, -ONE), ONE) if np.isfinite(number) else ZERO


@device_function
def focus_target(action: Any, focus_slots: Any, at: Any) -> Any:
    """Return `actions.focus_target` of one mech."""
    best, target = ZERO, -1
    for slot in range(at.num_preferences):
        preference = clipped(action[at.first_preference + slot])
        # No branch here: it would be unpredictable.
        is_better = (focus_slots[slot] >= 0) & (preference > best)
        best, target = preference if is_better else best, focus_slots[slot] if is_better else target
    return target


@device_function
def sort_mode(action: Any, at: Any) -> Any:
    """Return the sort mode with the highest preference; the first one among equals."""
    best, best_mode = clipped(action[at.first_sort_mode]), 0
    for mode in range(1, at.num_sort_modes):
        preference = clipped(action[at.first_sort_mode + mode])
        best, best_mode = max(preference, best), mode if preference > best else best_mode
    return best_mode


@device_function
def decode(
    actions: Any, focus_slots: Any, orders: Orders, tally: TallyRow, hulls: Hulls, at: Any, rules: Rules, lane: Lane
) -> None:
    """Apply `actions.decode` to one battle, without messages; count NaN and inf in `tally`. `at`: an `ACTION`."""
    for n in range(first(lane), orders.shape[0], stride(lane)):
        action, order, hull = actions[n], orders[n], hulls[n]
        num_bad = 0
        for column in range(action.shape[0]):
            num_bad += 0 if np.isfinite(action[column]) else 1
        tally[n].bad_actions += np.float32(num_bad)
        ahead, left = clipped(action[at.forward]), clipped(action[at.strafe])
        speed = max(length_2(ahead, left), ONE)
        order.throttle[0], order.throttle[1] = ahead / speed, left / speed
        order.thrust = positive(clipped(action[at.vertical])) if hull.jet > ZERO else ZERO
        order.turn = clipped(action[at.yaw_rate])
        order.vent = clipped(action[at.vent]) > ZERO
        secondary = clipped(action[at.secondary])
        emits = rules.ewar and hull.has_ewar and secondary > ZERO
        order.eccm = emits and secondary > rules.eccm_trigger
        order.ecm = emits and not order.eccm
        for weapon in range(rules.num_weapons):
            column = hull.trigger_column[weapon]
            order.fire[weapon] = 1 if column >= 0 and clipped(action[max(column, 0)]) > ZERO else 0
        order.focus = focus_target(action, focus_slots[n], at) if rules.target_preference else -1
        order.sort_mode = sort_mode(action, at) if rules.observation_control else 0
        order.hostile_only = rules.observation_control and clipped(action[at.hostile_only]) > ZERO


@device_function
def pass_messages(actions: Any, mechs: Mechs, messages: Any, at: Any, rules: Rules, lane: Lane) -> None:
    """Set the messages of living mechs, `messages [N, comm_dim]`, after the substeps."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        for i in range(messages.shape[1]):
            message = clipped(actions[n, at.num_controls + i]) * (ONE if rules.comms else ZERO)
            messages[n, i] = message * (ONE if mechs[n].hp > ZERO else ZERO)
