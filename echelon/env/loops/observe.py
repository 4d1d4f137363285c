"""`observation.build.observe` in loops: states as records, streams as buffers."""

from __future__ import annotations

import numpy as np
import torch

from echelon.env.loops.observation import observe_loop
from echelon.env.loops.records import SIGHT, VIEWER, ViewTables
from echelon.env.observation import layout
from echelon.env.observation.build import Observation
from echelon.rules.actions import NO_MECH, PREFERENCES, Orders
from echelon.sim.kernels.dispatch import array
from echelon.sim.loops.decide import battle_records, order_records, pack, paint_records, shared
from echelon.sim.loops.records import CLOUD, MECH, SHOT
from echelon.sim.loops.tables import Tables
from echelon.sim.model import SimModel
from echelon.state import State


def empty_streams(batch: int, count: int, squad: int, comm_dim: int) -> dict[str, np.ndarray]:
    """Streams of `count` mechs that show nothing, in the order in which `observe_loop` takes them."""
    contacts, side = min(count - 1, layout.MAX_CONTACTS), layout.LOCAL_MAP_CELLS

    def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return np.zeros((batch, count, *shape), dtype)

    return {
        "contacts": zeros(contacts, layout.width(layout.CONTACT)),
        "contacts_mask": zeros(contacts, dtype=np.bool_),
        "squad": zeros(squad, layout.width(layout.SQUAD)),
        "squad_mask": zeros(squad, dtype=np.bool_),
        "ego": zeros(layout.width(layout.EGO)),
        "comms": zeros(layout.PACK_SIZE, comm_dim),
        "local_map": zeros(side, side),
        "contact_mechs": np.full((batch, count, contacts), NO_MECH),
        "clear_lines": zeros(count, dtype=np.bool_),
    }


def observe_loops(
    state: State, orders: Orders, game: SimModel, tables: Tables, views: ViewTables
) -> tuple[State, Observation]:
    """`observe`."""
    mechs, ground, maps = state.mechs, state.terrain, game.maps
    batch, count = mechs.hp.shape
    streams = empty_streams(batch, count, views.squads.shape[1], state.messages.shape[-1])
    focus_slots = np.full((batch, count, PREFERENCES), NO_MECH)
    observe_loop(
        *(battle_records(state), pack(MECH, mechs.hp.shape, shared(mechs, MECH)), paint_records(state)),
        pack(SHOT, state.shots.ttl.shape, shared(state.shots, SHOT)),
        pack(CLOUD, state.clouds.ttl.shape, shared(state.clouds, CLOUD)),
        order_records(orders),
        *(array(values) for values in (state.messages, state.score, state.control, ground.solid, ground.opaque)),
        *(array(values) for values in (maps.zone_center, maps.zone_radius, maps.path_length, maps.path_direction)),
        *(tables.rules, tables.hulls, tables.weapons, tables.slots, *views),
        *(np.zeros(count, VIEWER), np.zeros((count, count), SIGHT), *streams.values(), focus_slots),
    )
    found = {name: torch.from_numpy(values) for name, values in streams.items()}
    return state.replace(focus_slots=torch.from_numpy(focus_slots)), found
