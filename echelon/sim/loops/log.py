"""The events of every substep of a decision, recorded by the numba loops and returned as `step.Log`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.runtime.jit import device_function
from echelon.sim.damage import Dealt
from echelon.sim.loops.packing import Parts, state_of, write
from echelon.sim.loops.records import IMPACT, Scratch, Weapons
from echelon.sim.model import SimModel
from echelon.sim.shots import Impacts
from echelon.sim.step import Log
from echelon.state import State


class LogArrays(NamedTuple):
    """Buffers for the events of K substeps of B battles; they are empty without an observer. Substep k of battle b is
    stored in row `k * B + b`."""

    states: Any
    """`packing.Parts` of the states after the substeps."""
    impacts: Any
    """[K * B, S] IMPACT, by slot."""
    flew: Any
    """[K * B, S] bool: the slot had a shot in flight."""
    dealt_by: Any
    """[K * B, N, N] float32, by shooter and target."""
    dealt_with: Any
    """[K * B, W, N] float32, by weapon and target."""
    beams: Any
    """[K * B, W, N] int64, index of the mech that each mech's beam hit."""


def empty_log(before: Parts, weapons: int, rows: int) -> LogArrays:
    """Allocate log buffers of `rows` rows, for battles with the state fields `before`."""
    count, slots = before[1][0].shape[1], before[4][0].shape[1]
    return LogArrays(
        tuple(tuple(np.empty((rows, *values.shape[1:]), values.dtype) for values in fields) for fields in before),
        np.zeros((rows, slots), IMPACT),
        np.zeros((rows, slots), np.bool_),
        np.zeros((rows, count, count), np.float32),
        np.zeros((rows, weapons, count), np.float32),
        np.full((rows, weapons, count), NO_MECH),
    )


@device_function
def write_log(row: int, flew: int, fired: int, scratch: Scratch, weapons: Weapons, log: LogArrays) -> None:
    """Store the completed substep of a battle in a row. `flew` is the number of shots in flight, and `fired` is the
    number of weapons that fired."""
    records, impacts, pairs, pulls = scratch.records, scratch.impacts, scratch.pairs, scratch.pulls
    write(row, log.states, records, None)
    for k in range(flew):
        impact, record = impacts[k], log.impacts[row, impacts[k].slot]
        log.flew[row, impact.slot] = True
        record.ends, record.on_mech, record.target = impact.ends, impact.on_mech, impact.target
        record.on_voxel, record.on_floor = impact.on_voxel, impact.on_floor
        for axis in range(3):
            record.start[axis], record.point[axis] = impact.start[axis], impact.point[axis]
            record.direction[axis] = impact.direction[axis]
    for target in range(pairs.shape[0]):
        for shooter in range(pairs.shape[0]):
            log.dealt_by[row, shooter, target] = pairs[target, shooter].dealt
        for weapon in range(weapons.shape[0]):
            log.dealt_with[row, weapon, target] = records.mechs[target].dealt_by[weapon]
    for k in range(fired):
        if weapons[pulls[k].weapon].is_beam:
            log.beams[row, pulls[k].weapon, pulls[k].shooter] = pulls[k].target


def substeps_of(log: LogArrays, before: State, sim_model: SimModel) -> list[tuple[State, Log]]:
    """Return the results of `step.logged_substep` for every substep. All returned states share the terrain of the last
    state."""
    batch = before.shape[0]
    rays = [weapon for weapon in sim_model.roster.rays if sim_model.roster.guns.exist(weapon)]
    names = [name for name in IMPACT.names or () if name in Impacts.__dataclass_fields__]

    def tensor(values: np.ndarray, k: int) -> Tensor:
        return torch.from_numpy(values[k * batch : (k + 1) * batch])

    substeps = []
    for k in range(sim_model.rules.decision_repeat):
        rows = slice(k * batch, (k + 1) * batch)
        state = state_of(tuple(tuple(values[rows] for values in fields) for fields in log.states), before)
        impact = {name: tensor(log.impacts[name], k) for name in names}
        impacts = Impacts(**{**impact, "target": impact["target"].long()}, flew=tensor(log.flew, k))
        dealt = Dealt(tensor(log.dealt_by, k), tensor(log.dealt_with, k))
        substeps.append((state, Log(impacts, dealt, {ray: tensor(log.beams, k)[:, ray] for ray in rays})))
    return substeps
