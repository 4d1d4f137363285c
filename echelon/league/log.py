"""Event log of a league: one JSON object per line, for programs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from echelon.league.store import Store

FILE = "log.jsonl"


def write_event(store: Store, event: str, **values: object) -> None:
    """Append an event with its time (Unix, seconds) and the open period.

    Lines of several processes do not interleave: each is a single write to a file opened with `O_APPEND`.
    """
    line = json.dumps({"time": round(time.time(), 3), "event": event, "period": store.period, **values}) + "\n"
    handle = os.open(Path(store.folder) / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)
