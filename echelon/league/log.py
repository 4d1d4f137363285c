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
    """Append an event with the current time (Unix, seconds) and the number of the open rating period.

    Several processes may append at once; their lines do not mix.

    Raises:
        FileError: if the event cannot be appended; the log is then unchanged.
    """
    _append(store, [{"event": event, **values}])


def write_batch(store: Store, matches: Sequence[MatchRecord], seconds: float, setup: dict[str, Any]) -> None:
    """Append a `match` event for each match of a recorded batch, then one `fought` event with the batch's speed.

    Args:
        setup: settings of the arena, see `BatchArena.setup`.
    """
    rows = match_events(store, (match._asdict() for match in matches))
    _append(store, [*rows, batch_event(store, len(matches), seconds, is_recorded=True) | setup])


def match_events(store: Store, matches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a `match` event for each match: ids, names, seed, winner, reason, number of decisions, state hash."""
    names = {entry.id: entry.name for entry in store.entries()}
    rows = []
    for match in matches:
        sides = {f"{side}_name": names[match[side]] for side in ("blue", "red")}
        columns = {name: value for name, value in match.items() if name not in ("recipe", "stats", "key", "created")}
        rows.append({"event": "match", **columns, "winner": Winner(match["winner"]).name.lower(), **sides})
    return rows


def write_imported(store: Store, matches: Iterable[dict[str, Any]]) -> None:
    """Append a `match` event with `imported: true` for each match that was read from a file."""
    rows = iter(matches)
    while chunk := list(itertools.islice(rows, IMPORTED_AT_ONCE)):
        _append(store, [row | {"imported": True} for row in match_events(store, chunk)])


def batch_event(store: Store, matches: int, seconds: float, is_recorded: bool) -> dict[str, Any]:
    """Return the `fought` event of a played batch; `is_recorded` says whether its matches are recorded."""
    speed, hits = round(matches / seconds, 2), round(store.weights.hit_rate, 3)
    return {"event": "fought", "matches": matches, "matches_per_s": speed, "kept": is_recorded, "cache_hit_rate": hits}


def _append(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    stamp = {"time": round(time.time(), 3), "period": store.period}
    lines = "".join(json.dumps({**stamp, **row}) + "\n" for row in rows)
    append_whole(store.folder / FILE, lines.encode(), durable=False)
