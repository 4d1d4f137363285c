"""Battles of files of record 1, in the form of today: what they lack is empty, or told by their moments."""

from __future__ import annotations

import numpy as np

from echelon.replay.battle import CONDITIONS, FIRST_COLUMNS, NOBODY, Condition, Fact

Arrays = dict[str, np.ndarray]
TURNS = (
    (Fact.SHUT_DOWN, Condition.SHUT_DOWN, Condition.RESTARTED),
    (Fact.FALLEN, Condition.FELL, Condition.STOOD_UP),
    (Fact.LEGGED, Condition.LEGGED, None),
)
"""A fact of a moment, and the conditions that its beginning and its end stand for."""


def completed_arrays(kept: Arrays, decision_repeat: int) -> Arrays:
    """The arrays of a battle with those that record 1 lacks; `decision_repeat`: ticks from one moment to the next."""
    moments, mechs = kept["yaw"].shape
    widened = {
        name: np.pad(kept[name], ((0, 0), (0, 1)), constant_values=NOBODY).astype(np.int32) for name in FIRST_COLUMNS
    }
    return {
        **kept,
        **widened,
        "conditions": conditions_of(kept["facts"], decision_repeat),
        "moves": np.zeros((moments, mechs, 4), np.int8),
        "triggers": np.zeros((moments, mechs), np.uint16),
        "switches": np.zeros((moments, mechs), np.uint8),
    }


def conditions_of(facts: np.ndarray, decision_repeat: int) -> np.ndarray:
    """`Battle.conditions` as far as the facts `[T + 1, N]` tell: those that lasted to the end of a decision."""
    found = []
    for fact, begins, ends in TURNS:
        on, alive = (facts & fact) > 0, (facts & Fact.ALIVE) > 0
        turns = [(begins, on[1:] & ~on[:-1])]
        if ends is not None:
            turns.append((ends, ~on[1:] & on[:-1] & alive[1:]))
        for condition, turned in turns:
            decision, mech = np.nonzero(turned)
            tick = (decision + 1) * decision_repeat - 1
            found.append(np.stack((tick, mech, np.full_like(tick, condition)), 1))
    rows = np.concatenate(found).astype(np.int32)
    return rows[np.argsort(rows[:, 0], kind="stable")].reshape(-1, len(CONDITIONS))
