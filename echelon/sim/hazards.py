"""Heat and damage that emitters and ground materials cause, not weapons."""

from echelon.rules.actions import Orders
from echelon.rules.catalog import DEBRIS_DAMAGE, DEBRIS_HEAT, Material
from echelon.sim import damage, ewar, formulas
from echelon.sim.heat import bounded
from echelon.sim.model import SimModel
from echelon.sim.terrain import is_material, standing_on
from echelon.state import State


def apply_hazards(state: State, orders: Orders, sim_model: SimModel) -> State:
    """Apply the heat of ECM and ECCM, and the heat and damage of lava, debris and water under each mech."""
    rules, mechs = sim_model.rules, state.mechs
    material = standing_on(state, sim_model)
    lava = is_material(material, Material.LAVA).float()
    debris = is_material(material, Material.DEBRIS_FIELD).float()
    water = is_material(material, Material.WATER).float()

    shares = rules.lava_heat_per_s, DEBRIS_HEAT, rules.water_heat_per_s
    heat_per_s = formulas.ground_heat_per_s(lava, debris, water, *shares)
    damage_per_s = formulas.ground_damage_per_s(lava, debris, rules.lava_damage_per_s, DEBRIS_DAMAGE)
    heat_per_s = mechs.alive * heat_per_s + ewar.heat_per_s(state, orders, sim_model)
    heat = bounded(mechs.heat + heat_per_s * rules.dt_s, sim_model)
    state = state.replace(mechs=mechs.replace(heat=heat))
    return damage.apply_uncredited_damage(state, damage_per_s * rules.dt_s)
