"""Chooses positions for both teams and the zone on imported ground."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from echelon.rules.catalog import Catalog, Material
from echelon.rules.position import TEAMS, Unit
from echelon.runtime.files import expect
from echelon.world.paths import STEPS, standing_level, walkable
from echelon.world.pool import bit_columns, column_heights

WIDEST_REACH = 2
"""Columns that the widest hull spreads beyond its own."""
APART_VOX = 5
"""Between the centres of two mechs of a team, along x or y."""
ENEMIES_VOX = 12
"""Between the nearest mechs of the two teams, along x or y."""
RADIUS_VOX = 7.5
ROOM = "--crop chooses another part, --margin adds open ground"


class Walk(NamedTuple):
    """Where a hull of a given width can walk; all arrays are `[Y, X]`."""

    level: np.ndarray
    """Height on which it stands, vox."""
    part: np.ndarray
    """Number of the connected part, -1 where it cannot stand. In a part it walks from everywhere to everywhere."""
    is_level: np.ndarray
    """Nothing above the hull, and no higher ground below it than it stands on."""


def walk_on(dense: np.ndarray, reach: int, catalog: Catalog) -> Walk:
    """Return where a hull that extends `reach` columns around its centre can walk on `dense [Z, Y, X]`.

    Each step is at most one voxel up or down, and possible in both directions.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size_z = dense.shape[0]
    material = torch.from_numpy(dense)[None]
    solid = bit_columns(material, [catalog.material(kind).solid for kind in Material])
    level = standing_level(solid, size_z, reach)
    lava = (material == int(Material.LAVA)).any(1)
    passable = walkable(level, lava, size_z, reach)[0].numpy()
    tops = column_heights(solid, size_z).float()
    window = 2 * reach + 1
    highest = torch.nn.functional.max_pool2d(tops, window, 1, reach)[0].numpy()
    heights = level[0].numpy()
    size_y, size_x = passable.shape
    number = np.arange(passable.size).reshape(passable.shape)
    pairs = []
    for dx, dy in STEPS[4:] + STEPS[2:4]:  # the diagonals, +x and +y; the others are these the other way
        here = (slice(max(-dy, 0), size_y - max(dy, 0)), slice(max(-dx, 0), size_x - max(dx, 0)))
        there = (slice(max(dy, 0), size_y - max(-dy, 0)), slice(max(dx, 0), size_x - max(-dx, 0)))
        is_step = passable[here] & passable[there] & (abs(heights[here] - heights[there]) <= 1)
        pairs.append(np.stack((number[here][is_step], number[there][is_step])))
    rows, columns = np.concatenate(pairs, 1)
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(passable.size, passable.size))
    part = connected_components(graph, directed=False)[1].reshape(passable.shape)
    return Walk(heights, np.where(passable, part, -1), passable & (highest == heights))


def place_teams(
    name: str, dense: np.ndarray, hulls: Sequence[Sequence[str]], catalog: Catalog
) -> tuple[tuple[Unit, ...], tuple[float, ...]]:
    """Return mechs of both teams at the two ends of the largest connected part of the ground, and a zone between them.

    Args:
        name: name of the file, for error messages.
        dense: the ground as materials `[Z, Y, X]` uint8.
        hulls: hull names of blue's and of red's mechs.

    Raises:
        FileError: if there is no room for a team or for the zone; the message names the place.
    """
    walk = walk_on(dense, WIDEST_REACH, catalog)
    counts = np.bincount(walk.part[walk.part >= 0], minlength=1)
    expect(counts.max() > 0, f"{name}: ground", f"with level places 5 vox wide: {ROOM}", "none")
    part = walk.part == counts.argmax()
    y, x = np.nonzero(part & walk.is_level)
    where = place_of(part)
    expect(len(x) > 0, f"{name}: connected ground of {where}", f"with level places 5 vox wide: {ROOM}", "none")
    along, across = (x, y) if np.ptp(x) >= np.ptp(y) else (y, x)
    aside = abs(2 * across - across.min() - across.max())
    orders = [np.lexsort((aside, sign * along)) for sign in (1, -1)]
    spots = np.stack((x, y), 1)
    chosen = [apart(spots[order], len(names)) for order, names in zip(orders, hulls, strict=True)]
    for team, places, wanted in zip(TEAMS, chosen, hulls, strict=True):
        line = f"for {len(wanted)} mechs of {team}, {APART_VOX} vox apart: {ROOM}"
        expect(len(places) == len(wanted), f"{name}: connected ground of {where}: level places", line, len(places))
    gap = int(abs(chosen[0][:, None] - chosen[1][None]).max(2).min())
    line = f"at least {ENEMIES_VOX} vox: {ROOM}"
    expect(gap >= ENEMIES_VOX, f"{name}: connected ground of {where}: distance of the teams", line, f"{gap} vox")
    turn = 0 if along is x else 90
    units = [
        Unit(team, hull, spot[0] + 0.5, spot[1] + 0.5, facing_deg=(turn + 180 * red))
        for red, (team, places, names) in enumerate(zip(TEAMS, chosen, hulls, strict=True))
        for hull, spot in zip(names, places.tolist(), strict=True)
    ]
    middle = (chosen[0].mean(0) + chosen[1].mean(0)) / 2
    return tuple(units), zone_near(name, part, middle, where)


def place_of(mask: np.ndarray) -> str:
    """Return the rectangle around the columns of a mask `[Y, X]`, in words."""
    y, x = np.nonzero(mask)
    return f"x {x.min()}..{x.max()}, y {y.min()}..{y.max()}"


def apart(spots: np.ndarray, count: int) -> np.ndarray:
    """Return the first `count` of `spots [K, 2]` that are at least `APART_VOX` away from each other."""
    is_free, chosen = np.ones(len(spots), bool), list[np.ndarray]()
    while len(chosen) < count and is_free.any():
        spot = spots[is_free.argmax()]
        chosen.append(spot)
        is_free &= abs(spots - spot).max(1) >= APART_VOX
    return np.array(chosen, np.int64).reshape(-1, 2)


def zone_near(name: str, part: np.ndarray, middle: np.ndarray, where: str) -> tuple[float, ...]:
    """Return the zone: a circle around the column of `part [Y, X]` nearest to `middle` that has room for it."""
    y, x = np.nonzero(part)
    edge = math.ceil(RADIUS_VOX)
    inside = (np.minimum(x, y) >= edge) & (x < part.shape[1] - edge) & (y < part.shape[0] - edge)
    line = f"at least {RADIUS_VOX} vox from the edges of the map: {ROOM}"
    expect(bool(inside.any()), f"{name}: connected ground of {where}: place of the zone", line, "none")
    x, y = x[inside], y[inside]
    best = ((x - middle[0]) ** 2 + (y - middle[1]) ** 2).argmin()
    return float(x[best]), float(y[best]), RADIUS_VOX


def check_ways(
    name: str, dense: np.ndarray, units: Sequence[Unit], zone: tuple[float, float, float], catalog: Catalog
) -> None:
    """Check that each mech of a file can walk to the zone.

    Raises:
        FileError: if a mech cannot; the message names the mech and its position.
    """
    walk_of = functools.cache(lambda reach: walk_on(dense, reach, catalog))
    row, column = np.indices(dense.shape[1:])
    disc = (column - zone[0]) ** 2 + (row - zone[1]) ** 2 <= zone[2] ** 2
    for unit in units:
        half = max(catalog.hulls[unit.hull].size[:2]) / 2
        walk = walk_of(math.floor(half + 0.5))
        if unit.area:
            low_x, low_y, high_x, high_y = unit.area
            mask = (column + 0.5 >= low_x) & (column + 0.5 <= high_x) & (row + 0.5 >= low_y) & (row + 0.5 <= high_y)
            place = "{:g}, {:g} to {:g}, {:g}".format(*unit.area)
        else:
            mask = (column == math.floor(unit.x)) & (row == math.floor(unit.y))
            place = f"{unit.x:g}, {unit.y:g}"
        parts = set(walk.part[mask].tolist()) - {-1}
        is_joined = bool(parts & set(walk.part[disc].tolist()))
        goal = f"joined on foot with the zone at {zone[0]:g}, {zone[1]:g}"
        expect(is_joined, f"{name}: {unit.team} {unit.hull} at {place}", goal, "no way")
