"""Electronic warfare: emitters, and the sensor quality of a mech. See `sim/ewar.py`."""

import math
from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import distance_sq, positive
from echelon.sim.loops.heat import is_running, is_shut_down
from echelon.sim.loops.records import Hull, Hulls, Mech, Order, Rules, Scratch


@device_function
def is_emitting(mech: Mech, hull: Hull, order: Order) -> Any:
    """Return True if a mech runs ECM or ECCM. Mechs whose suite has no emitter never have such an order."""
    return (order.ecm or order.eccm) and is_running(mech, hull)


sensor_quality = device_function(formulas.sensor_quality)


@device_function
def find_emitters(scratch: Scratch, hulls: Hulls) -> None:
    """List the mechs that run ECM or ECCM, for `jamming`. All lanes (GPU threads) run this loop and write the same
    values."""
    mechs, orders, count = scratch.records.mechs, scratch.orders, 0
    for n in range(mechs.shape[0]):
        # The GPU threads (lanes) of a battle are not synchronized here, so each of them must write the same values.
        if is_emitting(mechs[n], hulls[n], orders[n]):
            scratch.emitters[count] = n
            count += 1
    scratch.records.battles[0].num_emitters = count


@device_function
def jamming(n: int, scratch: Scratch, hulls: Hulls, rules: Rules) -> Any:
    """Numba version of `ewar.sense`, for one mech: return its sensor quality and the jamming strength at its
    position."""
    mechs, orders = scratch.records.mechs, scratch.orders
    mech = mechs[n]
    blind = mech.hp <= ZERO or is_shut_down(mech, hulls[n])
    jam, clear = ZERO, ZERO
    for index in range(scratch.records.battles[0].num_emitters):
        other = np.uint32(scratch.emitters[index])
        hull, order = hulls[other], orders[other]
        if other == n:
            continue
        distance = math.sqrt(distance_sq(mechs[other].pos, mech.pos))
        falloff = positive(ONE - distance / rules.ewar_vox)
        if hull.is_red != hulls[n].is_red and order.ecm:
            jam = max(jam, falloff)
        if hull.is_red == hulls[n].is_red and order.eccm:
            clear = max(clear, falloff)
    if blind:
        return rules.blind_quality, jam
    quality = sensor_quality(jam, clear, rules.jam_loss, rules.eccm_gain, ONE)
    return min(max(quality, rules.blind_quality), rules.best_quality), jam
