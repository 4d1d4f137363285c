"""Phases 1 to 4, which affect each mech separately: timers, heat, footing and venting."""

from first_catalog import CATALOG

from echelon.rules.catalog import DEBRIS_DAMAGE, DEBRIS_HEAT, Material

from .battle import Battle, Mech, Orders
from .hair import below, cell_of, weigh
from .senses import is_running
from .vectors import norm

REGENERATION_FLOOR = 0.1


def count_down(battle: Battle) -> None:
    """Count down the timers of mechs and clouds to 0."""
    for cloud in battle.clouds:
        cloud.ttl -= 1
    battle.clouds = [cloud for cloud in battle.clouds if cloud.ttl > 0]
    for mech in battle.mechs:
        mech.cooldown = {timer: max(0, left - 1) for timer, left in mech.cooldown.items()}
        mech.paint = [max(0, left - 1) for left in mech.paint]
        mech.suppressed = max(0, mech.suppressed - 1)
        mech.under_fire = max(0, mech.under_fire - 1)


def warm(battle: Battle, mech: Mech, points: float) -> None:
    """Clamp heat to 0 .. 2 * cap."""
    mech.heat = max(0.0, min(battle.rules.heat_ceiling * mech.spec.heat_cap, mech.heat + points))


def ground_under(battle: Battle, mech: Mech) -> Material:
    """Return the material at the centre of the hull's underside."""
    size = battle.ground.size
    cell = [cell_of(mech.pos[0]), cell_of(mech.pos[1]), cell_of(mech.bottom)]
    return battle.ground.at(*(max(0, min(size[axis] - 1, cell[axis])) for axis in range(3)))


def burn(battle: Battle, orders: list[Orders]) -> None:
    """Apply the heat of running ECM (3/s) and ECCM (2/s), and of lava, debris and water under each mech."""
    rules = battle.rules
    for mech in battle.living():
        heat_per_s = damage_per_s = 0.0
        if is_running(mech):
            heat_per_s += (
                CATALOG.ecm_heat_per_s * orders[mech.index].ecm + CATALOG.eccm_heat_per_s * orders[mech.index].eccm
            )
        ground = ground_under(battle, mech)
        if ground == Material.LAVA:
            heat_per_s += rules.lava_heat_per_s
            damage_per_s += rules.lava_damage_per_s
        elif ground == Material.DEBRIS_FIELD:
            heat_per_s += rules.lava_heat_per_s * DEBRIS_HEAT
            damage_per_s += rules.lava_damage_per_s * DEBRIS_DAMAGE
        elif ground == Material.WATER:
            heat_per_s += rules.water_heat_per_s
        warm(battle, mech, heat_per_s * rules.dt_s)
        weigh(mech.hp, damage_per_s * rules.dt_s, "burnt to death")
        mech.hp = max(0.0, mech.hp - damage_per_s * rules.dt_s)


def stand(battle: Battle) -> None:
    """Count down falls; start a fall at stability <= 0; otherwise regenerate stability."""
    rules = battle.rules
    for mech in battle.mechs:
        most = rules.stability_cap * (0.5 if mech.legged else 1.0)
        if mech.fallen > 0:
            mech.fallen -= 1
            if mech.fallen == 0:
                mech.stability = most / 2
        elif mech.alive and mech.stability <= 0:
            mech.fallen = rules.substeps(rules.fall_s)
            mech.vel = [0.0, 0.0, 0.0]
            mech.tally.falls += 1
        elif mech.alive:
            penalties = 0.5 * mech.legged + 0.5 * below(1.0, norm(mech.vel), "walks") + 0.75 * (mech.suppressed > 0)
            gain = rules.stability_regen_per_s * max(REGENERATION_FLOOR, 1 - penalties) * rules.dt_s
            mech.stability = min(most, mech.stability + gain)


def cool(battle: Battle, orders: list[Orders]) -> set[int]:
    """Dissipate heat; mechs that vent dissipate three times as much. Returns the mechs that vent."""
    vents = {mech.index for mech in battle.mechs if orders[mech.index].vent and is_running(mech)}
    for index in vents:
        battle.mechs[index].tally.vent_s += battle.rules.dt_s
    for mech in battle.mechs:
        per_s = mech.spec.heat_sink_per_s * (1 + battle.rules.vent_factor * (mech.index in vents))
        warm(battle, mech, -per_s * battle.rules.dt_s)
    return vents
