"""A league as one JSON file, and back: nothing of a stranger's file is believed before all of it was checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echelon.config import ConfigError, as_json, env_from_json, from_json
from echelon.files import FileError, parse_json, read_file, write_whole
from echelon.league.config import LeagueConfig
from echelon.league.glicko2 import DEVIATION
from echelon.league.schema import CHANGES, KINDS
from echelon.league.store import Store, scripted_entry
from echelon.league.vault import DIGEST, FOLDER, Vault
from echelon.learn.checkpoint import open_checkpoint

SCHEMA, VERSION = "echelon-league", 1
MAX_BYTES = 256 << 20
COLUMNS = {
    "entries": ("id", "kind", "name", "parent", "env", "created"),
    "periods": ("number", "opened", "closed"),
    "matches": (
        *("key", "period", "blue", "red", "seed", "recipe", "winner", "reason", "decisions", "duration_s", "stats"),
        "created",
    ),
    "ratings": ("period", "entry", "rating", "deviation", "volatility"),
    "changes": ("number", "period", "entry", "change", "reason", "created"),
}
"""What a file tells, table by table; an entry also tells where its weights lie beside the file."""
Check = Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Finite, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def whole(low: int, high: int = 1 << 62) -> tuple[str, Check]:
    """An integer within limits."""
    return f"an integer {low}..{high}", lambda value: type(value) is int and low <= value <= high


def text(limit: int = 1 << 16) -> tuple[str, Check]:
    """A string that is not too long."""
    return f"a text of at most {limit} letters", lambda value: isinstance(value, str) and len(value) <= limit


def chosen(names: tuple[str, ...]) -> tuple[str, Check]:
    """One of these names."""
    return f"one of {names}", lambda value: isinstance(value, str) and value in names


NUMBER: tuple[str, Check] = ("a finite number", is_number)
POSITIVE: tuple[str, Check] = ("a number > 0", lambda value: is_number(value) and value > 0)
SHA256: tuple[str, Check] = ("a sha256", lambda value: isinstance(value, str) and DIGEST.fullmatch(value) is not None)


def maybe(rule: tuple[str, Check]) -> tuple[str, Check]:
    """The same, or null."""
    return f"{rule[0]} or null", lambda value: value is None or rule[1](value)


RULES: dict[str, dict[str, tuple[str, Check]]] = {
    "entries": {
        "id": SHA256,
        "kind": chosen(KINDS),
        "name": text(100),
        "parent": maybe(SHA256),
        "env": text(),
        "created": NUMBER,
        "weights": maybe(text(100)),
    },
    "periods": {"number": whole(1), "opened": NUMBER, "closed": maybe(NUMBER)},
    "matches": {
        "key": text(1000),
        "period": whole(1),
        "blue": SHA256,
        "red": SHA256,
        "seed": whole(0),
        "recipe": text(500),
        "winner": whole(0, 2),
        "reason": text(100),
        "decisions": whole(1),
        "duration_s": NUMBER,
        "stats": text(),
        "created": NUMBER,
    },
    "ratings": {
        "period": whole(1),
        "entry": SHA256,
        "rating": NUMBER,
        "deviation": (f"in (0, {DEVIATION:g}]", lambda value: is_number(value) and 0 < value <= DEVIATION),
        "volatility": POSITIVE,
    },
    "changes": {
        "number": whole(1),
        "period": whole(1),
        "entry": maybe(SHA256),
        "change": chosen(CHANGES),
        "reason": text(1000),
        "created": NUMBER,
    },
}


def write_league(store: Store, path: Path) -> None:
    """Write a league into a file, and copies of its weights beside it."""
    document: dict[str, Any] = {"schema": SCHEMA, "version": VERSION}
    document |= {"env": store.env.signature(), "rules": as_json(store.rules)}
    with store.writing():
        for table, columns in COLUMNS.items():
            rows = store.do(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")
            document[table] = [dict(zip(columns, row, strict=True)) for row in rows]
    beside = Vault(path.parent)
    for entry in document["entries"]:
        is_scripted = entry["id"] == scripted_id(entry["name"])
        entry["weights"] = None if is_scripted else f"{FOLDER}/{entry['id']}"
        if not is_scripted:
            beside.keep(store.vault.place(entry["id"]))
    write_whole(path, (json.dumps(document, indent=1) + "\n").encode())


def scripted_id(name: str) -> str | None:
    """The id of the scripted tier of this name; None for other names."""
    kind, _, tier = name.partition(":")
    return scripted_entry(tier).id if kind == "heuristic" else None


def read_league(path: Path, folder: str | Path) -> Store:
    """Make a league from a file and the weights beside it.

    Raises:
        FileError: naming file, row and field; then no league is made.
    """
    document = parse_json(path.name, read_file(path, MAX_BYTES), only_finite=False)
    check(path.name, document)
    try:
        env, rules = env_from_json(document["env"]), from_json(LeagueConfig, document["rules"], "rules")
    except ConfigError as error:
        raise FileError(f"{path.name}: {error}") from None
    theirs, ours = Vault(path.parent), Vault(Path(folder))
    for row, entry in enumerate(document["entries"]):
        if entry["weights"] is not None:
            try:
                theirs.open(entry["id"]).policy()
            except FileError as error:
                raise FileError(f"{path.name}: entries[{row}].weights: {error}") from None
    for entry in document["entries"]:
        if entry["weights"] is not None:
            ours.keep(open_checkpoint(theirs.place(entry["id"])).path)

    def fill(store: Store) -> None:
        # Rows may name parents that stand further down.
        store.do("PRAGMA defer_foreign_keys = ON")
        for table, columns in COLUMNS.items():
            marks = ", ".join("?" * len(columns))
            for row in document[table]:
                store.do(f"INSERT INTO {table} VALUES ({marks})", *(row[name] for name in columns))

    return Store.create(folder, env, rules, fill)


def check(name: str, document: Any) -> None:
    """Every row and field of a league's file, and what they say of each other."""
    if not isinstance(document, dict):
        raise FileError(f"{name}: expected an object, got {type(document).__name__}")
    for field, expected in (("schema", SCHEMA), ("version", VERSION)):
        if document.get(field) != expected:
            raise FileError(f"{name}: {field} must be {expected!r}, got {document.get(field)!r}")
    for field in ("env", "rules"):
        if not isinstance(document.get(field), dict):
            raise FileError(f"{name}: {field} must be an object, got {document.get(field)!r}")
    for table, rules in RULES.items():
        if not isinstance(document.get(table), list):
            raise FileError(f"{name}: {table} must be a list, got {type(document.get(table)).__name__}")
        for number, row in enumerate(document[table]):
            check_row(f"{name}: {table}[{number}]", row, rules)
    check_once(name, document)
    check_references(name, document)


def check_row(where: str, row: Any, rules: dict[str, tuple[str, Check]]) -> None:
    """One row by itself."""
    if not isinstance(row, dict) or row.keys() != rules.keys():
        raise FileError(f"{where} must hold {', '.join(rules)}, got {list(row) if isinstance(row, dict) else row!r}")
    for field, (limit, holds) in rules.items():
        if not holds(row[field]):
            raise FileError(f"{where}.{field} must be {limit}, got {str(row[field])[:100]!r}")
    if "weights" in rules:
        own = scripted_id(row["name"])
        expected = None if own is not None else f"{FOLDER}/{row['id']}"
        if row["weights"] != expected:
            raise FileError(f"{where}.weights must be {expected!r}, got {row['weights']!r}")
        if own is not None and row["id"] != own:
            raise FileError(f"{where}.id must be {own}, as of every {row['name']}, got {row['id']}")


def check_once(name: str, document: dict[str, Any]) -> None:
    """What may stand there once only."""
    unique = (
        *(("entries", ("id",)), ("entries", ("name",)), ("periods", ("number",)), ("matches", ("key",))),
        *(("ratings", ("entry", "period")), ("changes", ("number",))),
    )
    for table, fields in unique:
        seen: set[tuple[Any, ...]] = set()
        for number, row in enumerate(document[table]):
            value = tuple(row[field] for field in fields)
            if value in seen:
                raise FileError(f"{name}: {table}[{number}].{fields[0]} must stand there once, got {value[0]!r} again")
            seen.add(value)


def check_references(name: str, document: dict[str, Any]) -> None:
    """Who is named exists, nobody fights itself, and one period is open: the last."""
    known = {"entry": {row["id"] for row in document["entries"]}, "period": {r["number"] for r in document["periods"]}}
    named = {
        "entries": {"parent": "entry"},
        "matches": {"blue": "entry", "red": "entry", "period": "period"},
        "ratings": {"entry": "entry", "period": "period"},
        "changes": {"entry": "entry", "period": "period"},
    }
    for table, fields in named.items():
        for number, row in enumerate(document[table]):
            for field, kind in fields.items():
                if row[field] is not None and row[field] not in known[kind]:
                    raise FileError(f"{name}: {table}[{number}].{field} must name a known {kind}, got {row[field]!r}")
    for number, row in enumerate(document["matches"]):
        if row["blue"] == row["red"]:
            raise FileError(f"{name}: matches[{number}].red must not be blue, got {row['red']!r}")
    still_open = [row["number"] for row in document["periods"] if row["closed"] is None]
    if still_open != [max(known["period"], default=None)]:
        raise FileError(f"{name}: periods must end with one that is open, got open {still_open}")
