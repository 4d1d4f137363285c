"""Exports a league to a JSON file and imports it.

An imported file is untrusted: all of it is validated before the league is created. Files are read and written row by
row, so memory does not grow with their size. Imported rows are checked one by one and inserted into a temporary
database, whose indices enforce unique keys and make references fast to check.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import torch

from echelon.arena.batch_arena import Battle
from echelon.league import log
from echelon.league.config import LeagueConfig
from echelon.league.database import RULES, check_identity, check_rules, check_values
from echelon.league.ratings import DEVIATION, RATING, VOLATILITY, Ratings, games_of, rate, ratings_of
from echelon.league.records import match_key, recipe_versions, scripted_id
from echelon.league.store import FILE, WEIGHTS_FOLDER, Store, WeightStore
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json, battle_difference, from_json
from echelon.rules.versions import current_versions
from echelon.runtime import version
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError, as_file_error, atomic_write, expect, open_file, writing_to
from echelon.runtime.json_checks import optional, record, text
from echelon.runtime.json_tables import read_tables, table_bytes

SCHEMA, VERSION = "echelon-league", 1
COLUMNS = {table: tuple(RULES[table]) for table in ("entries", "periods", "matches", "ratings", "changes", "exploits")}
"""Exported columns by table. Entries have one more field, the path of their weights relative to the file."""
ROWS = {table: record(RULES[table]) for table in COLUMNS}
ROWS["entries"] = record({**RULES["entries"], "weights": optional(text(100))})
REPEATED = re.compile(r"UNIQUE constraint failed: \w+\.(\w+)")
"""SQLite's error for duplicate values, and the first of their columns."""
REFERENCES = {**dict.fromkeys(("blue", "red", "entry", "response"), "entries"), "period": "periods"}
"""By column, the table that it refers to; the same in every table with this column."""
REFERENCED = {
    "entries": ("entry", "SELECT id FROM entries WHERE id = ?"),
    "periods": ("period", "SELECT closed FROM periods WHERE number = ?"),
}
"""The noun for a row of these tables, and the query that finds it."""
VALUES = {table: operator.itemgetter(*names) for table, names in COLUMNS.items()}
"""Returns a row's values in this order."""
CACHED = 1 << 14
"""Number of cached lookups of entries, periods and recipes."""
ROWS_AT_ONCE = 64
"""Number of rows per statement, and in memory."""


def stored_rows(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Yield rows of a table with their exported columns, in rowid order, without loading the whole table."""
    columns, last = COLUMNS[table], -(1 << 63)
    query = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {ROWS_AT_ONCE}"
    while chunk := store.execute(query, last):
        for row in chunk:
            yield dict(zip(columns, row[1:], strict=True))
        last = chunk[-1][0]


def stage(name: str, file: BinaryIO, limit: int, store: Store) -> dict[str, Any]:
    """Insert the rows of an exported league into an empty database.

    Args:
        limit: maximum size of the file in bytes.

    Returns:
        All fields of the file except its tables, such as the league's settings.
    """
    staging = Staging(name, store)
    try:
        for key, number, value in read_tables(name, file, limit, COLUMNS, only_finite=False):
            if number is not None:
                staging.add(key, number, value)
            elif key in COLUMNS:
                staging.begin(key)
            else:
                staging.settings[key] = value
    except FileError:
        # Insert the buffered rows first: if one of these earlier rows is invalid too, its error is reported instead.
        staging.insert()
        raise
    staging.finish()
    with as_file_error(name):
        config = from_json(LeagueConfig, staging.settings["rules"], "rules")
    check_ratings(name, store, config.tau)
    return staging.settings


def check_setting(name: str, field: str, value: Any) -> None:
    """Validate a header field of the file, or the type of a setting; the value None means that the field is missing."""
    expected = {"schema": SCHEMA, "version": VERSION}.get(field)
    expect(expected in (None, value), f"{name}: {field}", repr(expected), value)
    expect(field not in ("env", "rules") or isinstance(value, dict), f"{name}: {field}", "an object", value)
    if field == "env":
        check_rules(name, value)


class Staging:
    """The import of one file: it checks the file's rows and inserts them into a database.

    Args:
        store: the new league, which has no rows yet.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name, self.store = name, store
        self.settings: dict[str, Any] = {}
        self.tables: list[str] = []
        """Tables read so far, in the order of the file."""
        self.batch: list[tuple[Any, ...]] = []
        """Rows of the current table that are not inserted yet."""
        self.inserted = 0
        """Number of rows of the current table in the database."""
        self.unresolved: list[str] = []
        """Tables that precede a table they refer to."""
        # Create the caches per import, so that they are freed after it.
        self.find = functools.lru_cache(CACHED)(lambda table, key: store.execute(REFERENCED[table][1], key))
        self.versions = functools.lru_cache(CACHED)(recipe_versions)

    def begin(self, table: str) -> None:
        for field, value in self.settings.items():
            check_setting(self.name, field, value)
        if not set(self.tables).issuperset(REFERENCES[field] for field in REFERENCES if field in COLUMNS[table]):
            self.unresolved.append(table)
        self.insert()
        self.inserted = 0
        self.tables.append(table)

    def add(self, table: str, number: int, row: Any) -> None:
        location = f"{self.name}: {table}[{number}]"
        check_fields(location, row, table)
        if table == "entries" and row["parent"] is not None and not self.find("entries", row["parent"]):
            raise FileError(f"{location}.parent must name an earlier entry, got {row['parent']!r}")
        if table == "matches":
            self._check_match(location, row)
        if table not in self.unresolved:
            self._check_references(location, table, row)
        self.batch.append(VALUES[table](row))
        # Insert an entry at once, because the next entry may name it as its parent.
        if len(self.batch) == ROWS_AT_ONCE or table == "entries":
            self.insert()

    def insert(self) -> None:
        """Insert the rows of the current table that were added since the last insertion."""
        batch, self.batch = self.batch, []
        if not batch:
            return
        table, connection = self.tables[-1], self.store.database.connection
        before = connection.total_changes
        try:
            self.store.database.insert(f"{table} ({', '.join(COLUMNS[table])})", batch)
        except FileError as error:
            repeated = REPEATED.search(str(error))
            if repeated is None:
                raise
            done = connection.total_changes - before
            row = dict(zip(COLUMNS[table], batch[done], strict=True))
            field = "id" if self.find("entries", row.get("id")) else repeated[1]
            location = f"{self.name}: {table}[{self.inserted + done}].{field}"
            raise FileError(f"{location} must be unique, got duplicate {row[field]!r}") from None
        self.inserted += len(batch)

    def _check_match(self, where: str, row: dict[str, Any]) -> None:
        try:
            rules = self.versions(row["recipe"]).rules
        except ConfigError as error:
            raise FileError(f"{where}.{error}") from None
        versions = current_versions().rules
        expect(rules == versions, f"{where}.recipe", f"of rules {versions}", row["recipe"])
        if row["blue"] == row["red"]:
            raise FileError(f"{where}.red must differ from blue, got {row['red']!r}")

    def _check_references(self, where: str, table: str, row: dict[str, Any]) -> None:
        for field, target in REFERENCES.items():
            if row.get(field) is not None and not self.find(target, row[field]):
                raise FileError(f"{where}.{field} must name a known {REFERENCED[target][0]}, got {row[field]!r}")
        is_open = table == "ratings" and self.find("periods", row["period"]) == [(None,)]
        expect(not is_open, f"{where}.period", "a closed period", row.get("period"))
        if table == "matches":
            key = match_key(Battle(row["blue"], row["red"], row["seed"]), row["recipe"])
            expect(row["key"] == key, f"{where}.key", repr(key), row["key"])

    def finish(self) -> None:
        """Validate what can be checked only after the whole file was read."""
        self.insert()
        for field in ("schema", "version", "env", "rules"):
            check_setting(self.name, field, self.settings.get(field))
        for table in COLUMNS:
            expect(table in self.tables, f"{self.name}: {table}", "a list", None)
        for table in self.unresolved:
            for number, row in enumerate(stored_rows(self.store, table)):
                self._check_references(f"{self.name}: {table}[{number}]", table, row)
        if not self.store.execute("SELECT 1 FROM entries LIMIT 1"):
            raise FileError(f"{self.name}: entries must contain at least one, got none")
        still_open = self.store.execute("SELECT number FROM periods WHERE closed IS NULL ORDER BY number LIMIT 10")
        if still_open != self.store.execute("SELECT max(number) FROM periods"):
            numbers = [number for (number,) in still_open]
            raise FileError(f"{self.name}: periods must end with the only open one, got open {numbers}")


def check_ratings(name: str, store: Store, tau: float) -> None:
    """Recompute the ratings of every closed period from its matches and the ratings before it, and compare them.

    Raises:
        FileError: if a stored rating differs by more than rounding error, or is missing for an entry that played in the
            period.
    """
    last: dict[str, tuple[float, ...]] = {}
    for (period,) in store.execute("SELECT number FROM periods WHERE closed IS NOT NULL ORDER BY number"):
        query = "SELECT rowid, entry, rating, deviation, volatility FROM ratings WHERE period = ? ORDER BY rowid"
        rows = store.execute(query, period)
        entries = [entry for _, entry, *_ in rows]
        games = store.execute("SELECT blue, red, winner FROM matches WHERE period = ? ORDER BY rowid", period)
        if unrated := {entry for game in games for entry in game[:2]} - {*entries}:
            raise FileError(f"{name}: ratings must include all players of period {period}, got none of {min(unrated)}")
        before = ratings_of([last.get(entry, (RATING, DEVIATION, VOLATILITY)) for entry in entries])
        after = torch.stack(rate(before, games_of(games, entries), tau), -1).tolist()
        for (row, entry, *stored), computed in zip(rows, after, strict=True):
            for field, value, expected in zip(Ratings._fields, stored, computed, strict=True):
                limit = f"{expected:.6g}, computed from the matches of period {period}"
                expect(math.isclose(value, expected, rel_tol=1e-6), f"{name}: ratings[{row - 1}].{field}", limit, value)
            last[entry] = tuple(stored)


def check_fields(where: str, row: Any, table: str) -> None:
    """Validate the fields of one row, except its references to other rows."""
    ROWS[table](where, row)
    if table == "exploits":
        low, bound, high = row["low"], row["bound"], row["high"]
        expect(low <= bound <= high, f"{where}.bound", f"{low:g}..{high:g}, the interval of the row", bound)
    if table == "entries":
        expected = None if scripted_id(row["name"]) is not None else f"{WEIGHTS_FOLDER}/{row['id']}"
        expect(row["weights"] == expected, f"{where}.weights", repr(expected), row["weights"])
        suffix = f"@{current_versions().rules}"
        if expected is None and not row["name"].endswith(suffix):
            raise FileError(f"{where}.name must end with {suffix}, the rules of the league, got {row['name']!r}")
        check_identity(where, row["id"], row["name"], row["kind"])


MAX_BYTES = 256 << 20
Watched = Callable[[BinaryIO], BinaryIO]


def write_league(store: Store, path: Path) -> None:
    """Write a league to a JSON file, and copies of its weights beside it.

    Training checkpoints of the main agent and the exploiters are not exported.

    Raises:
        FileError: if `read_league` would reject the league, the file would exceed `MAX_BYTES`, `path` is the league's
            log, or a file cannot be written. No file is written then.
    """
    settings: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "written_by": version.VERSION}
    settings |= {"env": store.env.signature(), "rules": as_json(store.rules)}
    if path.resolve() == (store.folder / log.FILE).resolve():
        raise FileError(f"{path}: expected another name, got that of the league's log")
    beside = WeightStore(path.parent)
    with atomic_write(path) as draft:
        with store.writing():
            write_rows(path, draft, settings, store)
        # Validate the exported file with the import code, so that every exported league can be imported.
        with staged(draft, str(store.path)) as copy:
            for _, digest in networks(copy):
                beside.add(store.weights.open(digest))


def write_rows(path: Path, draft: Path, settings: dict[str, Any], store: Store) -> None:
    """Write the settings and rows of a league to a JSON file; `draft` is its temporary path."""
    with open(draft, "wb") as file:
        for piece in table_bytes(settings, {table: exported_rows(store, table) for table in COLUMNS}):
            if file.tell() + len(piece) > MAX_BYTES:
                raise FileError(f"{path}: a league must have at most {MAX_BYTES} bytes to be imported, got more")
            file.write(piece)


def exported_rows(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the fields that they have in an exported file."""
    for number, row in enumerate(stored_rows(store, table)):
        check_values(f"{store.path}: {table}[{number}]", row, RULES[table])
        if table == "entries":
            row["weights"] = None if row["id"] == scripted_id(row["name"]) else f"{WEIGHTS_FOLDER}/{row['id']}"
        yield row


def networks(store: Store) -> Iterator[tuple[int, str]]:
    """Yield the row number and the id of each entry that has weights."""
    for number, row in enumerate(stored_rows(store, "entries")):
        if scripted_id(row["name"]) is None:
            yield number, row["id"]


@contextlib.contextmanager
def staged(path: Path, name: str) -> Iterator[Store]:
    """Context manager that yields a temporary database with the validated rows of an exported league.

    The database is created in a temporary folder next to the file.
    """
    with open_file(path, MAX_BYTES) as file, writing_to(path):  # noqa: SIM117
        with tempfile.TemporaryDirectory(prefix=".league.", dir=path.parent) as folder:
            with closing(Store.build(folder, lambda store: stage(name, file, MAX_BYTES, store))) as store:
                yield store


def read_league(path: Path, folder: str | Path, watched: Watched = lambda file: file) -> Store:
    """Create a league from an exported file and from the weights in the same folder.

    Args:
        path: the file, written by `write_league`.
        watched: function that wraps the open file, for example to show progress.
    """
    root = Path(folder)
    if (root / FILE).exists():
        raise FileError(f"{folder}: expected a folder without a league, found {FILE}")
    source, local_store = WeightStore(path.parent), WeightStore(root)
    new = [candidate for candidate in (local_store.folder, root, *root.absolute().parents) if not candidate.exists()]
    copied: list[Path] = []

    def fill(store: Store) -> None:
        settings = stage(path.name, watched(file), MAX_BYTES, store)
        with as_file_error(path.name):
            env, config = env_from_json(settings["env"]), from_json(LeagueConfig, settings["rules"], "rules")
        check_weights(path.name, store, env, source)
        for _, digest in networks(store):
            if not local_store.path(digest).exists():
                copied.append(local_store.path(digest))
            local_store.add(source.open(digest))
        store.set_config(env, config)

    with open_file(path, MAX_BYTES) as file:
        try:
            store = Store.build(folder, fill)
        except BaseException:
            if not (root / FILE).exists():
                take_back(copied, *new)
            raise
    log.write_imported(store, stored_rows(store, "matches"))
    return store


def check_weights(name: str, store: Store, env: EnvConfig, weights: WeightStore) -> None:
    for row, digest in networks(store):
        try:
            checkpoint = weights.open(digest)
            checkpoint.policy()
        except FileError as error:
            raise FileError(f"{name}: entries[{row}].weights: {error}") from None
        if difference := battle_difference(env.signature(), checkpoint.env.signature()):
            raise FileError(f"{name}: entries[{row}].weights: trained with another battle config: {difference}")


def take_back(new: Sequence[Path], *folders: Path) -> None:
    """Remove the folders in `new`; then remove those of `folders` that are empty."""
    for path in new:
        shutil.rmtree(path, ignore_errors=True)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
