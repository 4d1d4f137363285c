"""Timers count down, once a substep."""

from __future__ import annotations

from echelon.state import State


def count_down(state: State) -> State:
    """One substep less on every cooldown and suppression, down to 0."""
    mechs = state.mechs
    return state.replace(
        mechs=mechs.replace(
            cooldown=(mechs.cooldown - 1).clamp_min(0),
            suppressed=(mechs.suppressed - 1).clamp_min(0),
        )
    )
