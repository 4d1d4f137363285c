"""Anti-missile systems. See `sim/ams.py`."""

from typing import Any

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, device_function
from echelon.sim.loops.arithmetic import length_3, on_grid, stream_key, uniform
from echelon.sim.loops.heat import is_running
from echelon.sim.loops.packing import Records
from echelon.sim.loops.records import Hull, Hulls, Mech, Rules, Shots, Slots, Weapons


@device_function
def nearest_threat(mech: Mech, hull: Hull, shots: Shots, slots: Slots, hulls: Hulls, rules: Rules) -> Any:
    """Return the slot of the nearest shot that a mech's AMS can shoot at, -1 for none."""
    nearest, best = INFINITY, -1
    for slot in range(rules.first_interceptable, rules.last_interceptable):
        shot = shots[slot]
        if shot.ttl > 0 and shot.target >= 0 and hulls[slots[slot].shooter].is_red != hull.is_red:
            distance = length_3(shot.pos[0] - mech.pos[0], shot.pos[1] - mech.pos[1], shot.pos[2] - mech.pos[2])
            if distance <= rules.ams_vox and distance < nearest:
                nearest = distance
                best = slot
    return best


@device_function
def intercept(records: Records, slots: Slots, hulls: Hulls, weapons: Weapons, rules: Rules) -> None:
    """Numba version of `ams.intercept`."""
    mechs, tally, shots = records.mechs, records.tally, records.shots
    key = stream_key(records.battles[0], rules.ams_stream)
    for n in range(mechs.shape[0]):
        mech, hull = mechs[n], hulls[n]
        if not hull.has_ams or mech.cooldown[rules.ams_timer] != 0 or not is_running(mech, hull):
            continue
        slot = nearest_threat(mech, hull, shots, slots, hulls, rules)
        if slot < 0:
            continue
        mech.cooldown[rules.ams_timer] = rules.ams_substeps
        if uniform(key, n) < rules.ams_chance and not shots[slot].downed:
            shots[slot].downed = True
            tally[n].intercepts += ONE
            tally[n].intercepted_damage += np.float32(on_grid(weapons[slots[slot].weapon].damage))
    for slot in range(rules.first_interceptable, rules.last_interceptable):
        if shots[slot].downed:
            shots[slot].downed = False
            shots[slot].ttl = 0
