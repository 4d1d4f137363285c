"""Event log of a league: one JSON object per line, for programs."""

import itertools
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from echelon.env.outcome import Winner
from echelon.league.records import MatchRecord
from echelon.league.store import Store
from echelon.runtime.files import append_whole

FILE = "log.jsonl"
IMPORTED_AT_ONCE = 1024


def write_event(store: Store, event: str, **values: object) -> None:
    """Append an event with its time (Unix, seconds) and the open period.

    Lines of several processes do not interleave.

    Raises:
        FileError: it cannot be appended to; then it is as it was.
    """
    _append(store, [{"event": event, **values}])


def write_batch(store: Store, matches: Sequence[MatchRecord], seconds: float, setup: dict[str, Any]) -> None:
    """Append a `match` event for each match of a recorded batch, then one `fought` for the batch, with its speed.

    Args:
        setup: how they were played, see `BatchArena.setup`.
    """
    rows = match_events(store, (match._asdict() for match in matches))
    _append(store, [*rows, batch_event(store, len(matches), seconds, is_recorded=True) | setup])


def match_events(store: Store, matches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A `match` event for each match, from its columns: who by id and by name, seed, winner, why and when it ended,
    hash of its last state."""
    names = {entry.id: entry.name for entry in store.entries()}
    rows = []
    for match in matches:
        sides = {f"{side}_name": names[match[side]] for side in ("blue", "red")}
        told = {name: value for name, value in match.items() if name not in ("recipe", "stats", "key", "created")}
        rows.append({"event": "match", **told, "winner": Winner(match["winner"]).name.lower(), **sides})
    return rows


def write_imported(store: Store, matches: Iterable[dict[str, Any]]) -> None:
    """Append a `match` event, marked `imported`, for each match that came from a file, from its columns."""
    rows = iter(matches)
    while chunk := list(itertools.islice(rows, IMPORTED_AT_ONCE)):
        _append(store, [row | {"imported": True} for row in match_events(store, chunk)])


def batch_event(store: Store, matches: int, seconds: float, is_recorded: bool) -> dict[str, Any]:
    """The `fought` event of a batch; `is_recorded` says whether its matches are recorded."""
    speed, hits = round(matches / seconds, 2), round(store.weights.hit_rate, 3)
    return {"event": "fought", "matches": matches, "matches_per_s": speed, "kept": is_recorded, "cache_hit_rate": hits}


def _append(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    stamp = {"time": round(time.time(), 3), "period": store.period}
    lines = "".join(json.dumps({**stamp, **row}) + "\n" for row in rows)
    append_whole(store.folder / FILE, lines.encode(), durable=False)
