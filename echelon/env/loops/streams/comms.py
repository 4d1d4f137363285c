"""The loop of the stream `comms`; see `observation/streams/comms.py`."""

from __future__ import annotations

from typing import Any

from echelon.env.loops.stream_arrays import Streams
from echelon.runtime.jit import ZERO, device_function


@device_function
def show(n: int, sources: Any, streams: Streams) -> None:
    """Fill the messages that one mech receives from its packmates."""
    cockpit, messages, rows = sources.views.cockpits[n], sources.arrays.messages, streams.comms[n]
    if sources.scratch.records.mechs[n].hp > ZERO:
        for seat in range(cockpit.pack_slot.shape[0]):
            mate = cockpit.pack_slot[seat]
            if mate < messages.shape[0] and mate != n:
                for i in range(messages.shape[1]):
                    rows[seat, i] = messages[mate, i]
