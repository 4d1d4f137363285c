"""The loop of the stream `squad` and its mask; see `observation/streams/squad.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import ViewTables
from echelon.env.loops.sensing import body_frame
from echelon.env.loops.stream_arrays import Streams
from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim.loops.heat import is_running
from echelon.sim.loops.records import Hull, Mech, Scratch, Weapons
from echelon.sim.loops.tables import Tables


@device_function
def readiness(mech: Mech, hull: Hull, carries: Any, weapons: Weapons) -> Any:
    """Return `squad.readiness` of one mech; `carries [W]`."""
    carried, ready = ZERO, ZERO
    for weapon in range(weapons.shape[0]):
        if carries[weapon]:
            carried += ONE
            if mech.cooldown[weapons[weapon].timer] == 0:
                ready += ONE
    return (ready if is_running(mech, hull) else ZERO) / max(carried, ONE)


@device_function
def comrade(n: int, mate: int, scratch: Scratch, tables: Tables, views: ViewTables, row: Any, at: Any) -> None:
    """Fill the columns of one comrade, `row [F]` of zeros; see `squad.squad`."""
    mechs, by_mech, cockpits, view = scratch.records.mechs, scratch.by_mech, views.cockpits, views.numbers[0]
    own, mech, hull, cockpit = mechs[n], mechs[mate], tables.hulls[mate], cockpits[n]
    alive = mech.hp > ZERO
    ahead, left = body_frame(mech.pos[0] - own.pos[0], mech.pos[1] - own.pos[1], own)
    row[at.rel_pos], row[at.rel_pos + 1] = ahead / view.longest, left / view.longest
    row[at.rel_pos + 2] = (mech.pos[2] - own.pos[2]) / view.longest
    row[at.hull + hull.hull] = ONE
    if alive:
        row[at.alive] = ONE
        if cockpit.squad_detail >= 1:
            row[at.hp] = by_mech.health[mate]
            row[at.heat] = by_mech.heat[mate]
        if cockpit.squad_detail >= 2:
            row[at.stability] = by_mech.stability[mate]
            row[at.readiness] = readiness(mech, hull, cockpits[mate].carries, tables.weapons)
    target = scratch.orders[mate].focus
    if alive and target >= 0 and mechs[max(target, 0)].hp > ZERO and cockpit.sees_engaged:
        enemy, first = mechs[target], at.target_rel_pos
        ahead, left = body_frame(enemy.pos[0] - own.pos[0], enemy.pos[1] - own.pos[1], own)
        row[first], row[first + 1] = ahead / view.longest, left / view.longest
        row[first + 2] = (enemy.pos[2] - own.pos[2]) / view.longest


@device_function
def show(n: int, sources: Any, streams: Streams) -> None:
    """Fill the comrades of one mech."""
    scratch, views = sources.scratch, sources.views
    mechs, squads, at = scratch.records.mechs, views.squads, views.columns[0].squad
    if mechs[n].hp > ZERO:
        for seat in range(squads.shape[1]):
            mate = np.uint32(squads[n, seat])
            if mate < mechs.shape[0]:
                streams.squad_mask[n, seat] = True
                comrade(n, mate, scratch, sources.tables, views, streams.squad[n, seat], at)
