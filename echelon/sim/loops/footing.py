"""Stability: mechs fall and stand up again. See `sim/footing.py`."""

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import length_3
from echelon.sim.loops.records import Mech, Rules, TallyRow

unsteadiness = device_function(formulas.unsteadiness)


@device_function
def update_footing(mech: Mech, tally: TallyRow, rules: Rules) -> None:
    """Numba version of `footing.update_footing`, for one mech."""
    legged = ONE if mech.leg_hp <= ZERO else ZERO
    cap = rules.stability_cap * (rules.legged_stability if mech.leg_hp <= ZERO else ONE)
    alive, was_down = mech.hp > ZERO, mech.fallen > 0
    mech.fallen = max(mech.fallen - 1, 0)
    if was_down:
        if mech.fallen == 0:
            mech.stability = rules.risen_stability * cap
    elif alive and mech.stability <= ZERO:
        mech.fallen = rules.fall_substeps
        mech.vel[0] = ZERO
        mech.vel[1] = ZERO
        mech.vel[2] = ZERO
        tally.falls += ONE
    elif alive:
        walks = ONE if length_3(mech.vel[0], mech.vel[1], mech.vel[2]) > rules.steady_vox_per_s else ZERO
        suppressed = ONE if mech.suppressed > 0 else ZERO
        shares = rules.legged_unsteadiness, rules.walking_unsteadiness, rules.suppressed_unsteadiness
        loss = unsteadiness(legged, walks, suppressed, *shares)
        gain = rules.stability_regen_per_s * max(ONE - loss, rules.least_regeneration) * rules.dt_s
        mech.stability = min(mech.stability + gain, cap)
