"""All observation streams, each defined in the file of the same name. Specs, `describe` and layouts use the order of
this file."""

from __future__ import annotations

from echelon.env.observation.stream import Observation, Stream
from echelon.env.observation.streams import (
    comms,
    contacts,
    ego,
    local_map,
    order,
    packs,
    situation,
    squad,
    telemetry,
    tracks,
)
from echelon.rules.config import EnvConfig
from echelon.sim.model import SimModel
from echelon.state import State

OF_MECHS: tuple[Stream, ...] = (
    contacts.STREAM,
    squad.STREAM,
    ego.STREAM,
    comms.STREAM,
    local_map.STREAM,
    order.STREAM,
)
"""Streams of every mech, `(group, "observation", name)`."""
OF_BATTLES = (telemetry.STREAM,)
"""Streams of every battle, at the root."""
OF_COMMANDERS = (packs.STREAM, tracks.STREAM, situation.STREAM)
"""Streams of commanders, if `EnvConfig.command` is on."""
IN_ALL_BATTLES = tuple(stream for stream in OF_MECHS if stream.is_on is None)
"""The streams in `OF_MECHS` that battles of every config have."""


def streams_of(config: EnvConfig) -> tuple[Stream, ...]:
    """Return the streams in `OF_MECHS` that battles of a config have."""
    return tuple(stream for stream in OF_MECHS if stream.is_on is None or stream.is_on(config))


def names_of(streams: tuple[Stream, ...]) -> tuple[str, ...]:
    """Return the names of streams and of their masks."""
    return tuple(name for stream in streams for name in stream.names)


def add_streams(state: State, streams: Observation, sim_model: SimModel) -> Observation:
    """Return `streams` of all mechs, together with the streams for which no numba loop exists."""
    for stream in streams_of(sim_model.config):
        if stream.add is not None:
            streams = stream.add(state, streams, sim_model)
    return streams
