"""What the ground does to whoever stands in it: lava and debris burn, water cools."""

from __future__ import annotations

from echelon.catalog import DEBRIS_DAMAGE, DEBRIS_HEAT, Material
from echelon.sim import damage
from echelon.sim.game import Game
from echelon.sim.heat import bounded
from echelon.sim.terrain import is_material, standing_on
from echelon.state import State


def burn(state: State, game: Game) -> State:
    """Heat and damage from the ground under the feet, `lava_*`, `water_heat_per_s` of the rules."""
    rules, mechs = game.rules, state.mechs
    ground = standing_on(mechs, game.roster.half_size, state.map_id, game.maps)
    lava = is_material(ground, Material.LAVA)
    debris = is_material(ground, Material.DEBRIS_FIELD)
    water = is_material(ground, Material.WATER)

    heat_per_s = rules.lava_heat_per_s * (lava + DEBRIS_HEAT * debris) + rules.water_heat_per_s * water
    damage_per_s = rules.lava_damage_per_s * (lava + DEBRIS_DAMAGE * debris)
    heat = bounded(mechs.heat + mechs.alive * heat_per_s * rules.dt_s, game)
    state = state.replace(mechs=mechs.replace(heat=heat))
    return damage.wither(state, damage_per_s * rules.dt_s)
