"""What happened in a league, as JSON lines for programs to follow."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from echelon.league.store import Store

FILE = "log.jsonl"


def write_event(store: Store, event: str, **values: object) -> None:
    """Append a line. Lines of several processes do not mix: each is one write to a file opened for appending."""
    line = json.dumps({"time": round(time.time(), 3), "event": event, "period": store.period, **values}) + "\n"
    handle = os.open(Path(store.folder) / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)
