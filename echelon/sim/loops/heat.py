"""Heat of a mech: shutdown, venting and dissipation. See `sim/heat.py`."""

from typing import Any

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import positive
from echelon.sim.loops.records import Hull, Mech, Order, Rules, TallyRow

sink_per_s = device_function(formulas.sink_per_s)


@device_function
def is_shut_down(mech: Mech, hull: Hull) -> Any:
    """Numba version of `heat.is_shut_down`, for one mech."""
    return mech.heat > hull.heat_cap


@device_function
def is_running(mech: Mech, hull: Hull) -> Any:
    """Numba version of `heat.is_running`, for one mech."""
    return mech.hp > ZERO and mech.heat <= hull.heat_cap and mech.fallen == 0


@device_function
def bounded(heat: Any, hull: Hull, rules: Rules) -> Any:
    """Numba version of `heat.bounded`, for one mech."""
    return min(positive(heat), hull.heat_cap * rules.heat_ceiling)


@device_function
def dissipate_heat(mech: Mech, hull: Hull, tally: TallyRow, order: Order, rules: Rules) -> None:
    """Numba version of `heat.is_venting` and `heat.dissipate_heat`, for one mech."""
    mech.vents = order.vent and is_running(mech, hull)
    venting = ONE if mech.vents else ZERO
    loss_per_s = sink_per_s(hull.heat_sink_per_s, venting, rules.vent_factor, ONE)
    mech.heat = bounded(mech.heat - loss_per_s * rules.dt_s, hull, rules)
    tally.vent_s += venting * rules.dt_s
