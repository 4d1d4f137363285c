"""Timers of a mech. See `sim/timers.py`."""

from echelon.runtime.jit import device_function
from echelon.sim.loops.records import Mech, PaintRow, Rules


@device_function
def count_down(mech: Mech, paint: PaintRow, rules: Rules) -> None:
    """Numba version of `timers.count_down`, for one mech. Also stores in `marker`, before weapons fire, which mech
    painted (marked) this mech."""
    mech.suppressed = max(mech.suppressed - 1, 0)
    mech.under_fire = max(mech.under_fire - 1, 0)
    for timer in range(rules.num_timers):
        mech.cooldown[timer] = max(mech.cooldown[timer] - 1, 0)
    for pack in range(paint.shape[0]):
        mark = paint[pack]
        mark.left = max(mark.left - 1, 0)
        mark.marker = mark.by if mark.left > 0 else -1
