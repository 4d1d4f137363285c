"""Compute all observation streams of `streams/registry.py` for every mech."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.sensing import perceive
from echelon.env.observation.stream import Observation, StreamInputs
from echelon.env.observation.streams.contacts import contact_slots, hostile_slots
from echelon.env.observation.streams.registry import OF_MECHS, add_streams, names_of
from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Orders
from echelon.sim.model import SimModel
from echelon.state import State

DENSE = tuple((stream.names, stream.dense) for stream in OF_MECHS if stream.dense is not None)
"""Names of each stream that has a dense function, and that function."""
NAMES = names_of(OF_MECHS)


def observe(
    state: State, orders: Orders, sim_model: SimModel, out: Observation | None = None
) -> tuple[State, Observation]:
    """Compute the observation of every mech; return the state with updated contact slots, and the observation.

    Args:
        state: state of B battles.
        orders: the mechs' orders of the last decision, which set the contacts' sort order, the emitters and the focus
            targets.
        sim_model: rules, roster and maps.
        out: buffers by stream name, which are overwritten and returned in place of new tensors.

    Returns:
        The state, and the streams `[B, N, ...]` with their masks. Two further entries are used by replays and hidden
        from mechs, namely `contact_mechs [B, N, C]` int64, the mech in each contact slot or `NO_MECH`, and
        `clear_lines [B, N, N]` bool.
    """
    senses = perceive(state, orders, sim_model)
    slots, filled = contact_slots(senses, state, orders, sim_model)
    inputs = StreamInputs(state, orders, sim_model, senses, slots, filled)
    streams: Observation = {}
    for names, dense in DENSE:
        values = dense(inputs)
        streams.update(zip(names, (values,) if isinstance(values, Tensor) else values, strict=True))
    streams["contact_mechs"], streams["clear_lines"] = torch.where(filled, slots, NO_MECH), senses.line
    state = state.replace(focus_slots=hostile_slots(slots, filled, sim_model))
    streams = add_streams(state, streams, sim_model)
    return state, streams if out is None else write_streams(streams, out)


def initial_observation(state: State, sim_model: SimModel) -> tuple[State, Observation]:
    """Return the result of `observe` for battles before the first action."""
    return observe(state, actions.idle(state.seed.shape[0], sim_model.roster, sim_model.config), sim_model)


def write_streams(streams: Observation, out: Observation) -> Observation:
    """Write streams into the buffers `out`; return `out` with the other streams of mechs added."""
    for name, buffer in out.items():
        buffer.copy_(streams[name])
    return out | {name: streams[name] for name in NAMES if name in streams and name not in out}
