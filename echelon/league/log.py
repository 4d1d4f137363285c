"""Event log of a league: one JSON object per line, for programs."""

from __future__ import annotations

import json
import time

from echelon.league.store import Store
from echelon.runtime.files import append_whole

FILE = "log.jsonl"


def write_event(store: Store, event: str, **values: object) -> None:
    """Append an event with its time (Unix, seconds) and the open period.

    Lines of several processes do not interleave.

    Raises:
        FileError: it cannot be appended to; then it is as it was.
    """
    line = json.dumps({"time": round(time.time(), 3), "event": event, "period": store.period, **values}) + "\n"
    append_whole(store.folder / FILE, line.encode(), durable=False)
