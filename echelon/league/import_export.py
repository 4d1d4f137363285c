"""Exports a league to a JSON file and imports it. An imported file is untrusted and validated completely first."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelon.arena.batch_arena import Battle
from echelon.league.columns import RULES, check_identity, check_row, optional, text
from echelon.league.config import LeagueConfig
from echelon.league.records import match_key, recipe_versions, scripted_id
from echelon.league.store import FILE, Store
from echelon.league.weight_store import FOLDER, WeightStore
from echelon.rules.config import EnvConfig, as_json, battle_difference, env_from_json, from_json
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime import version
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, json_bytes, parse_json, read_file, write_whole

SCHEMA, VERSION = "echelon-league", 1
MAX_BYTES = 256 << 20
COLUMNS = {
    "entries": ("id", "kind", "name", "parent", "env", "created"),
    "periods": ("number", "opened", "closed"),
    "matches": (
        *("key", "period", "blue", "red", "seed", "recipe", "winner", "reason", "decisions", "duration_s", "stats"),
        *("created", "state_hash"),
    ),
    "ratings": ("period", "entry", "rating", "deviation", "volatility"),
    "changes": ("number", "period", "entry", "change", "reason", "created"),
}
"""Exported columns by table. Entries have one more field, the path of their weights relative to the file."""
WEIGHTS = optional(text(100))
ABSENT = {"matches": {"state_hash": ""}}
"""Defaults for fields that files of older versions lack, by table."""


def write_league(store: Store, path: Path) -> None:
    """Write a league to a JSON file, and copies of its weights next to it. Checkpoints of roles are not exported.

    Raises:
        FileError: if the league holds what `read_league` refuses, the file would be larger than `MAX_BYTES`, its limit,
            or something cannot be written; then there is no file.
    """
    document: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "written_by": version.VERSION}
    document |= {"env": store.env.signature(), "rules": as_json(store.rules)}
    with store.writing():
        for table, columns in COLUMNS.items():
            rows = store.read(table, columns, f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")
            document[table] = [dict(zip(columns, row, strict=True)) for row in rows]
    for entry in document["entries"]:
        is_scripted = entry["id"] == scripted_id(entry["name"])
        entry["weights"] = None if is_scripted else f"{FOLDER}/{entry['id']}"
    check(str(store.path), document)
    data = json_bytes(document)
    if len(data) > MAX_BYTES:
        raise FileError(f"{path}: a league must be at most {MAX_BYTES} bytes to be read again, got {len(data)}")
    beside = WeightStore(path.parent)
    for entry in document["entries"]:
        if entry["weights"] is not None:
            beside.add(store.weights.open(entry["id"]))
    write_whole(path, data)


def read_league(path: Path, folder: str | Path) -> Store:
    """Create a league from an exported file and the weights next to it.

    Args:
        path: the file, as written by `write_league`.
        folder: folder of the new league.

    Raises:
        FileError: if anything is invalid, or of other rules; the message names file, row and field. Then no league is
            created.
    """
    if (Path(folder) / FILE).exists():
        raise FileError(f"{folder}: expected a folder without a league, found {FILE}")
    document = read_document(path)
    rules, current = stored_versions(document["env"], "env").rules, current_versions().rules
    if rules != current:
        hint = f"`python -m echelon convert {path}` keeps its entries and drops matches and ratings"
        raise FileError(f"{path.name}: env.rules_version must be {current}, got {rules}: {hint}")
    try:
        env, config = env_from_json(document["env"]), from_json(LeagueConfig, document["rules"], "rules")
    except ConfigError as error:
        raise FileError(f"{path.name}: {error}") from None
    theirs, ours = WeightStore(path.parent), WeightStore(Path(folder))
    check_weights(path.name, document, env, theirs)

    def fill(store: Store) -> None:
        for table, columns in COLUMNS.items():
            marks = ", ".join("?" * len(columns))
            for row in document[table]:
                store.execute(
                    f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", *(row[name] for name in columns)
                )

    digests = [entry["id"] for entry in document["entries"] if entry["weights"] is not None]
    new = [ours.path(digest) for digest in digests if not ours.path(digest).exists()]
    try:
        for digest in digests:
            ours.add(theirs.open(digest))
        return Store.create(folder, env, config, fill)
    except BaseException:
        if not (Path(folder) / FILE).exists():
            take_back(new, ours.folder, Path(folder))
        raise


def check_weights(name: str, document: dict[str, Any], env: EnvConfig, store: WeightStore) -> None:
    """Validate the weights of all entries."""
    for row, entry in enumerate(document["entries"]):
        if entry["weights"] is not None:
            try:
                weights = store.open(entry["id"])
                weights.policy()
            except FileError as error:
                raise FileError(f"{name}: entries[{row}].weights: {error}") from None
            if difference := battle_difference(env.signature(), weights.env.signature()):
                raise FileError(f"{name}: entries[{row}].weights: trained in another battle: {difference}")


def take_back(new: Sequence[Path], *folders: Path) -> None:
    """Remove new folders, and then of `folders` those that nothing else is in."""
    for path in new:
        shutil.rmtree(path, ignore_errors=True)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def read_document(path: Path) -> dict[str, Any]:
    """Read an exported league of any rules, with all rows and references validated.

    Raises:
        FileError: if anything is invalid.
    """
    document = parse_json(path.name, read_file(path, MAX_BYTES), only_finite=False)
    check(path.name, document)
    return dict(document)


def check(name: str, document: Any) -> None:
    """Validate all rows and references of an exported league, in place: what files of older versions lack is filled in.

    Raises:
        FileError: if anything is invalid.
    """
    if not isinstance(document, dict):
        raise FileError(f"{name}: expected an object, got {type(document).__name__}")
    for field, expected in (("schema", SCHEMA), ("version", VERSION)):
        if document.get(field) != expected:
            raise FileError(f"{name}: {field} must be {expected!r}, got {document.get(field)!r}")
    for field in ("env", "rules"):
        if not isinstance(document.get(field), dict):
            raise FileError(f"{name}: {field} must be an object, got {document.get(field)!r}")
    for table in COLUMNS:
        if not isinstance(document.get(table), list):
            raise FileError(f"{name}: {table} must be a list, got {type(document.get(table)).__name__}")
        for number, row in enumerate(document[table]):
            if isinstance(row, dict):
                document[table][number] = row = fill_in(table, row)
            check_fields(f"{name}: {table}[{number}]", row, table)
    check_once(name, document)
    check_references(name, document)
    check_rules(name, document)


def fill_in(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with what files of older versions lack: fields of `ABSENT`, and the rules of a scripted tier, 1 then."""
    name = row.get("name")
    is_bare = table == "entries" and isinstance(name, str) and scripted_id(name) is not None and "@" not in name
    return {**ABSENT.get(table, {}), **row, **({"name": f"{name}@1"} if is_bare else {})}


def check_rules(name: str, document: dict[str, Any]) -> None:
    """Validate that scripted tiers and matches are of the rules of the league."""
    try:
        rules = stored_versions(document["env"], "env").rules
        for number, row in enumerate(document["matches"]):
            theirs = recipe_versions(row["recipe"]).rules
            require(theirs == rules, f"matches[{number}].recipe", f"of rules {rules}, the league's", row["recipe"])
    except ConfigError as error:
        raise FileError(f"{name}: {error}") from None
    for number, row in enumerate(document["entries"]):
        if row["weights"] is None and not row["name"].endswith(f"@{rules}"):
            raise FileError(f"{name}: entries[{number}].name must end with @{rules}, the league's, got {row['name']!r}")


def check_fields(where: str, row: Any, table: str) -> None:
    """Validate the fields of one row."""
    rules = {**RULES[table], **({"weights": WEIGHTS} if table == "entries" else {})}
    check_row(where, row, rules)
    if table == "entries":
        expected = None if scripted_id(row["name"]) is not None else f"{FOLDER}/{row['id']}"
        if row["weights"] != expected:
            raise FileError(f"{where}.weights must be {expected!r}, got {row['weights']!r}")
        check_identity(where, row["id"], row["name"], row["kind"])


def check_once(name: str, document: dict[str, Any]) -> None:
    """Validate that keys are unique."""
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
    """Validate references between rows.

    Referenced entries and periods exist, parents precede their children, no entry plays itself, match keys belong to
    their battles, and exactly the last period is open.
    """
    known = {"entry": {row["id"] for row in document["entries"]}, "period": {r["number"] for r in document["periods"]}}
    named = {
        "matches": {"blue": "entry", "red": "entry", "period": "period"},
        "ratings": {"entry": "entry", "period": "period"},
        "changes": {"entry": "entry", "period": "period"},
    }
    for table, fields in named.items():
        for number, row in enumerate(document[table]):
            for field, kind in fields.items():
                if row[field] is not None and row[field] not in known[kind]:
                    raise FileError(f"{name}: {table}[{number}].{field} must name a known {kind}, got {row[field]!r}")
    older: set[str] = set()
    for number, row in enumerate(document["entries"]):
        if row["parent"] is not None and row["parent"] not in older:
            raise FileError(f"{name}: entries[{number}].parent must name an entry above it, got {row['parent']!r}")
        older.add(row["id"])
    for number, row in enumerate(document["matches"]):
        if row["blue"] == row["red"]:
            raise FileError(f"{name}: matches[{number}].red must not be blue, got {row['red']!r}")
        own = match_key(Battle(row["blue"], row["red"], row["seed"]), row["recipe"])
        if row["key"] != own:
            raise FileError(f"{name}: matches[{number}].key must be {own!r}, got {row['key']!r}")
    if not document["entries"]:
        raise FileError(f"{name}: entries must be at least one, got none")
    still_open = [row["number"] for row in document["periods"] if row["closed"] is None]
    for number, row in enumerate(document["ratings"]):
        if row["period"] in still_open:
            raise FileError(f"{name}: ratings[{number}].period must be one that is closed, got {row['period']}")
    if still_open != [max(known["period"], default=None)]:
        raise FileError(f"{name}: periods must end with one that is open, got open {still_open}")
