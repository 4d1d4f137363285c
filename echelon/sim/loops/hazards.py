"""Heat and damage of emitters and ground materials. See `sim/hazards.py`."""

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.heat import bounded, is_running
from echelon.sim.loops.records import Hull, Mech, Order, Rules

ground_heat_per_s = device_function(formulas.ground_heat_per_s)
ground_damage_per_s = device_function(formulas.ground_damage_per_s)
emission_heat_per_s = device_function(formulas.emission_heat_per_s)


@device_function
def apply_hazards(mech: Mech, hull: Hull, order: Order, rules: Rules) -> None:
    """Numba version of `hazards.apply_hazards`, for one mech."""
    lava = ONE if mech.stands_on == rules.lava else ZERO
    debris = ONE if mech.stands_on == rules.debris_field else ZERO
    water = ONE if mech.stands_on == rules.water else ZERO
    emits = is_running(mech, hull)
    ecm = ONE if emits and order.ecm else ZERO
    eccm = ONE if emits and order.eccm else ZERO
    shares = rules.lava_heat_per_s, rules.debris_heat, rules.water_heat_per_s
    heat_per_s = ground_heat_per_s(lava, debris, water, *shares)
    damage_per_s = ground_damage_per_s(lava, debris, rules.lava_damage_per_s, rules.debris_damage)
    if mech.hp <= ZERO:
        heat_per_s = ZERO
    heat_per_s += emission_heat_per_s(ecm, eccm, rules.ecm_heat_per_s, rules.eccm_heat_per_s)
    mech.heat = bounded(mech.heat + heat_per_s * rules.dt_s, hull, rules)
    mech.hp -= min(damage_per_s * rules.dt_s, mech.hp)
