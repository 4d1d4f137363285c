"""What every mech observes: its contacts, its comrades, itself, its pack's messages, and the ground around it."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation import layout
from echelon.env.observation.contacts import contact_slots, contacts, hostile_slots
from echelon.env.observation.ego import ego
from echelon.env.observation.local_map import local_map
from echelon.env.observation.sensing import perceive
from echelon.env.observation.squad import comms, squad
from echelon.env.orders.order_stream import add_orders
from echelon.rules import actions
from echelon.rules.actions import NO_MECH, Orders
from echelon.sim.model import SimModel
from echelon.state import State

Observation = dict[str, Tensor]
"""Streams of all mechs, `[B, N, ...]` each."""


def observe(state: State, orders: Orders, game: SimModel, out: Observation | None = None) -> tuple[State, Observation]:
    """The observation of every mech, and the state with the contact slots it showed.

    Args:
        orders: the last decision's, for the chosen order of the contacts, the emitters and the focus targets.
        out: streams by name that are overwritten, and returned in place of new ones.

    Returns:
        The streams `contacts [B, N, C, F]`, `contacts_mask [B, N, C]`, `squad [B, N, S, F]`, `squad_mask [B, N, S]`,
        `ego [B, N, F]`, `comms [B, N, 5, comm_dim]` and `local_map [B, N, 11, 11]`; and for those who watch, not for
        mechs, `contact_mechs [B, N, C]` int64, who is shown in each contact slot or `NO_MECH`, and
        `clear_lines [B, N, N]` bool.
    """
    senses = perceive(state, orders, game)
    slots, filled = contact_slots(senses, state, orders, game)
    squad_rows, squad_mask = squad(state, orders, game)
    streams = {
        "contacts": contacts(slots, filled, senses, state, game),
        "contacts_mask": filled,
        "squad": squad_rows,
        "squad_mask": squad_mask,
        "ego": ego(senses, state, orders, game),
        "comms": comms(state, game),
        "local_map": local_map(state, game),
        "contact_mechs": torch.where(filled, slots, NO_MECH),
        "clear_lines": senses.line,
    }
    state = state.replace(focus_slots=hostile_slots(slots, filled, game))
    streams = add_orders(state, streams, game)
    return state, streams if out is None else write_streams(streams, out)


def first_look(state: State, game: SimModel) -> tuple[State, Observation]:
    """`observe` of battles in which nobody was told anything yet."""
    return observe(state, actions.idle(state.seed.shape[0], game.roster, game.config), game)


def write_streams(streams: Observation, out: Observation) -> Observation:
    """`out`, with the streams of the same names written to it, and `order` beside it where orders are on."""
    for name, buffer in out.items():
        buffer.copy_(streams[name])
    return out | {name: stream for name, stream in streams.items() if name == layout.ORDER_STREAM}
