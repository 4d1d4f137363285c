"""The loops of all streams that have one, each from the file with the stream's name."""

from __future__ import annotations

import importlib
from typing import Any

from echelon.env.loops.stream_arrays import FILLED, loop_from_source

loops: dict[str, Any] = {
    stream.name: importlib.import_module(f"echelon.env.loops.streams.{stream.name}").show for stream in FILLED
}
calls = "; ".join(f"{name}(n, sources, streams)" for name in loops)
show_streams = loop_from_source(f"def loop(n, sources, streams): {calls}", **loops)
"""Fill the streams of one mech from `observation.Sources`, after `clear_streams`."""
