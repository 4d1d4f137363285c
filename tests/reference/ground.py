"""Changes of the terrain: broken voxels, cleared foliage and wrecks."""

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
    """Remove foliage on the path of a shot, including the voxel of its muzzle."""
    for flight in flights:
        muzzle = tuple(cell_of(c) for c in flight.start)
        for cell in (muzzle, *(cell for cell, _, _ in entered(flight.start, flight.point))):
            if battle.ground.at(*cell) == Material.FOLIAGE:
                battle.ground.put(*cell, Material.AIR)


def chip(battle: Battle, flights: list[Flight]) -> None:
    """Damage the voxels that impacts hit; a voxel at 0 hp becomes air."""
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
    """Return the cells that a hull overlaps."""
    return set(product(*(cells_between(mech.pos[a] - mech.half[a], mech.pos[a] + mech.half[a]) for a in range(3))))


def resting_cells(battle: Battle, dead: Mech) -> set[Cell]:
    """Return the cells below a hull on the ground, or on a solid voxel that is not a wreck."""
    bottom = min(z for _, _, z in box_cells(dead))
    found = set()
    for x, y in {(x, y) for x, y, _ in box_cells(dead)}:
        top = max((z for z in range(bottom) if MATERIALS[battle.ground.at(x, y, z)].solid), default=-1)
        if top < 0 or battle.ground.at(x, y, top) != Material.SOLID_DEBRIS:
            found.add((x, y, top + 1))
    return found


def lay_wreck(battle: Battle, luck: list[float], priority: list[float]) -> None:
    """Lay the wreck of one dead mech without a wreck, the one with the highest priority."""
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
