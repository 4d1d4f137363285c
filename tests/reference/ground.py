"""How battles change the ground: voxels break, leaves go, the dead leave wrecks."""

import math
from itertools import product

from first_catalog import HULLS, MATERIALS, WEAPONS

from echelon.rules.catalog import Material

from .battle import Battle, Mech
from .flight import SKIN_VOX, Flight
from .hair import below, cell_of, cells_between, weigh
from .march import Cell, entered
from .vectors import add, times


def tear(battle: Battle, flights: list[Flight]) -> None:
    """Foliage is gone when a shot passes, that around its muzzle too."""
    for flight in flights:
        muzzle = tuple(cell_of(c) for c in flight.start)
        for cell in (muzzle, *(cell for cell, _, _ in entered(flight.start, flight.point))):
            if battle.ground.at(*cell) == Material.FOLIAGE:
                battle.ground.put(*cell, Material.AIR)


def chip(battle: Battle, flights: list[Flight]) -> None:
    """Impacts take hp from the voxel they met; at 0 it becomes air."""
    if not battle.features.destruction:
        return
    bites: dict[Cell, float] = {}
    for flight in flights:
        if flight.voxel is not None:
            bites[flight.voxel] = bites.get(flight.voxel, 0.0) + WEAPONS[flight.shot.weapon].damage
            beyond = add(flight.point, times(flight.way, SKIN_VOX))
            if tuple(math.floor(c) for c in beyond) != flight.voxel:
                weigh(0.0, SKIN_VOX / 100, "a bite on a corner")
    ground = battle.ground
    for cell, damage in bites.items():
        hp = MATERIALS[ground.at(*cell)].hp
        lost = ground.lost.get(ground.index(*cell), 0.0) + damage
        if lost >= hp:
            ground.put(*cell, Material.AIR)
        elif hp < math.inf:
            ground.lost[ground.index(*cell)] = lost
    tear(battle, flights)


def box_cells(mech: Mech) -> set[Cell]:
    """The cells a hull reaches into."""
    return set(product(*(cells_between(mech.pos[a] - mech.half[a], mech.pos[a] + mech.half[a]) for a in range(3))))


def resting_cells(battle: Battle, dead: Mech) -> set[Cell]:
    """The cells below a hull that lie on the ground, or on what stands there if that is no wreck."""
    bottom = min(z for _, _, z in box_cells(dead))
    found = set()
    for x, y in {(x, y) for x, y, _ in box_cells(dead)}:
        top = max((z for z in range(bottom) if MATERIALS[battle.ground.at(x, y, z)].solid), default=-1)
        if top < 0 or battle.ground.at(x, y, top) != Material.SOLID_DEBRIS:
            found.add((x, y, top + 1))
    return found


def lay_wreck(battle: Battle, luck: list[float], priority: list[float]) -> None:
    """The dead without a wreck wait for it; of several the one of highest priority has its turn."""
    if not battle.features.destruction:
        return
    waiting = [mech for mech in battle.mechs if not mech.alive and not mech.wrecked]
    if not waiting:
        return
    dead = max(waiting, key=lambda mech: priority[mech.index])
    stays_solid = below(luck[dead.index], HULLS[dead.hull].wreck_chance, "luck of a wreck")
    held = set().union(*(box_cells(mech) for mech in battle.living()))
    for cell in resting_cells(battle, dead) - held:
        if battle.ground.holds(*cell) and battle.ground.at(*cell) in (Material.AIR, Material.DIRT):
            battle.ground.put(*cell, Material.SOLID_DEBRIS if stays_solid else Material.DEBRIS_FIELD)
    dead.wrecked = True
