"""Timers that count down once per substep."""

from __future__ import annotations

from torch import Tensor

from echelon.state import State


def count_down(state: State) -> State:
    """Decrement cooldowns, paint, suppression, under-fire timers and the lifetimes of clouds, down to 0."""
    mechs, clouds = state.mechs, state.clouds

    def less(timer: Tensor) -> Tensor:
        return (timer - 1).clamp_min(0)

    return state.replace(
        mechs=mechs.replace(
            cooldown=less(mechs.cooldown),
            paint=less(mechs.paint),
            suppressed=less(mechs.suppressed),
            under_fire=less(mechs.under_fire),
        ),
        clouds=clouds.replace(ttl=less(clouds.ttl)),
    )
