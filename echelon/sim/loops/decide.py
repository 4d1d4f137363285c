"""States and orders as records and back, for `loops.decision`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.sim.kernels.dispatch import array, shared_array
from echelon.sim.loops.decision import decide_loop
from echelon.sim.loops.records import BATTLE, CLOUD, IMPACT, MECH, ORDER, PAINT, PAIR, PULL, SHOT, TALLY
from echelon.sim.loops.tables import Tables
from echelon.sim.model import SimModel
from echelon.state import State


def pack(kind: np.dtype, shape: tuple[int, ...], values: dict[str, Tensor]) -> Any:
    """Records of a shape with the given fields; the others are zero. A field by weapon or timer may have more room."""
    rows = np.zeros(shape, kind)
    for name, value in values.items():
        rows[name][..., : value.shape[-1]] = value.numpy()
    return rows


def shared(source: Any, kind: np.dtype) -> dict[str, Tensor]:
    """The fields that a part of the state, or the orders, have in common with a record."""
    return {name: getattr(source, name) for name in kind.names or () if name in type(source).__dataclass_fields__}


def unpack(rows: Any, old: dict[str, Tensor]) -> dict[str, Tensor]:
    """The fields of records that they were packed from, as tensors of the same shape."""
    return {name: copied(rows[name][..., : value.shape[-1]]) for name, value in old.items()}


def copied(values: Any) -> Tensor:
    """A tensor of the numbers of a field."""
    return torch.from_numpy(values.copy())


def battle_records(state: State) -> Any:
    """`BATTLE` of each battle."""
    return pack(BATTLE, state.seed.shape, {name: getattr(state, name) for name in BATTLE.names or ()})


def order_records(orders: Orders) -> Any:
    """`ORDER` of each mech."""
    return pack(ORDER, orders.thrust.shape, {**shared(orders, ORDER), "fire": orders.fire.transpose(1, 2)})


def paint_records(state: State) -> Any:
    """`PAINT` of each mech and pack."""
    return pack(PAINT, state.mechs.paint.shape, {"left": state.mechs.paint, "by": state.mechs.painter})


def decide_loops(state: State, orders: Orders, game: SimModel, tables: Tables) -> State:
    """`step.decide` in loops. The terrain is changed in place; nothing else of `state` is."""
    parts = {"mechs": MECH, "tally": TALLY, "shots": SHOT, "clouds": CLOUD}
    old = {name: shared(getattr(state, name), kind) for name, kind in parts.items()}
    sizes = {name: next(iter(fields.values())).shape[:2] for name, fields in old.items()}
    rows = {name: pack(kind, sizes[name], old[name]) for name, kind in parts.items()}
    battles, paint, ground, maps = battle_records(state), paint_records(state), state.terrain, game.maps
    count = game.roster.num_mechs
    decide_loop(
        *(battles, rows["mechs"], rows["tally"], paint, rows["shots"], rows["clouds"], order_records(orders)),
        *(shared_array(columns) for columns in (ground.solid, ground.opaque, ground.rubble, ground.damage)),
        *(array(field) for field in (maps.material, maps.solid, maps.opaque, maps.hazard)),
        *(tables.rules, tables.hulls, tables.weapons, tables.slots),
        *(
            np.zeros((count, count), PAIR),
            np.zeros(count * len(tables.weapons), PULL),
            np.zeros(len(tables.slots), IMPACT),
        ),
    )
    fresh = {name: unpack(rows[name], fields) for name, fields in old.items()}
    fresh["tally"]["bad_actions"] = fresh["tally"]["bad_actions"] + orders.bad
    return state.replace(
        mechs=state.mechs.replace(**fresh["mechs"], paint=copied(paint["left"]), painter=copied(paint["by"])),
        **{name: getattr(state, name).replace(**fresh[name]) for name in ("tally", "shots", "clouds")},
        tick=copied(battles["tick"]),
        messages=orders.message * (fresh["mechs"]["hp"] > 0)[..., None],
    )
