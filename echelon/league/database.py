"""The SQLite file of a league. A file is opened only if its schema is known; a statement on a locked file is retried.

Every SQLite error, such as a full disk or a corrupt page, becomes a one-line `FileError` with the file's name. The cost
of a query is limited in proportion to the file's size, because the file may be untrusted. Each value is checked by the
rule of its column.
"""

import contextlib
import functools
import logging
import os
import sqlite3
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from echelon.agents.tiers import TIERS
from echelon.league.ratings import DEVIATION
from echelon.league.records import scripted_id
from echelon.rules.versions import current_versions, stored_versions
from echelon.runtime import json_checks as checks
from echelon.runtime.errors import one_line
from echelon.runtime.files import FileError, as_file_error, expect, parse_json, warn_of_network

KINDS = ("scripted", "candidate", "commander", "main", "exploiter", "retired")
"""Kinds of entries: scripted tiers, added checkpoints, the best of them, snapshots of main agents, exploiters, and
retired entries, which play no battles."""
CHANGES = ("added", "promoted", "demoted", "retired", "judged", "reset")
"""Kinds of recorded changes of an entry or a role."""

APPLICATION_ID = int.from_bytes(b"Echl", "big")
"""`PRAGMA application_id` of a league."""
VERSION = 6
"""`PRAGMA user_version` of a league."""


def sql_words(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


TABLES = (
    "CREATE TABLE league (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"""CREATE TABLE entries (
        id TEXT PRIMARY KEY CHECK (length(id) = 64),
        kind TEXT NOT NULL CHECK (kind IN ({sql_words(KINDS)})),
        name TEXT NOT NULL UNIQUE,
        parent TEXT REFERENCES entries (id),
        env TEXT NOT NULL,
        created REAL NOT NULL)""",
    "CREATE TABLE periods (number INTEGER PRIMARY KEY, opened REAL NOT NULL, closed REAL)",
    """CREATE TABLE matches (
        key TEXT PRIMARY KEY,
        period INTEGER NOT NULL REFERENCES periods (number),
        blue TEXT NOT NULL REFERENCES entries (id),
        red TEXT NOT NULL REFERENCES entries (id) CHECK (red <> blue),
        seed INTEGER NOT NULL,
        recipe TEXT NOT NULL,
        winner INTEGER NOT NULL CHECK (winner IN (0, 1, 2)),
        reason TEXT NOT NULL,
        decisions INTEGER NOT NULL CHECK (decisions > 0),
        duration_s REAL NOT NULL,
        stats TEXT NOT NULL,
        created REAL NOT NULL, state_hash TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX matches_of_a_period ON matches (period)",
    """CREATE TABLE ratings (
        period INTEGER NOT NULL REFERENCES periods (number),
        entry TEXT NOT NULL REFERENCES entries (id),
        rating REAL NOT NULL,
        deviation REAL NOT NULL CHECK (deviation > 0),
        volatility REAL NOT NULL CHECK (volatility > 0),
        PRIMARY KEY (entry, period))""",
    f"""CREATE TABLE changes (
        number INTEGER PRIMARY KEY,
        period INTEGER NOT NULL REFERENCES periods (number),
        entry TEXT REFERENCES entries (id),
        change TEXT NOT NULL CHECK (change IN ({sql_words(CHANGES)})),
        reason TEXT NOT NULL,
        created REAL NOT NULL)""",
    """CREATE TABLE exploits (
        entry TEXT NOT NULL REFERENCES entries (id),
        response TEXT NOT NULL REFERENCES entries (id),
        agent_steps INTEGER NOT NULL,
        battles INTEGER NOT NULL CHECK (battles > 0),
        bound REAL NOT NULL,
        low REAL NOT NULL,
        high REAL NOT NULL,
        created REAL NOT NULL,
        PRIMARY KEY (entry, response))""",
    """CREATE TABLE claims (
        blue TEXT NOT NULL,
        red TEXT NOT NULL,
        seed INTEGER NOT NULL,
        owner TEXT NOT NULL,
        PRIMARY KEY (blue, red, seed))""",
)
"""Statements that create the tables of a league."""

VIEWS = (
    """CREATE TEMP VIEW payoff AS
        SELECT x, y, count(*) AS games, sum(score) AS score FROM (
            SELECT blue AS x, red AS y, CASE winner WHEN 1 THEN 1.0 WHEN 0 THEN 0.5 ELSE 0.0 END AS score
            FROM main.matches
            UNION ALL
            SELECT red, blue, CASE winner WHEN 2 THEN 1.0 WHEN 0 THEN 0.5 ELSE 0.0 END FROM main.matches)
        GROUP BY x, y""",
    """CREATE TEMP VIEW standings AS
        SELECT e.id, e.name, e.kind, r.rating, r.deviation, r.volatility,
            coalesce(total.games, 0) AS games, coalesce(total.score, 0.0) AS score
        FROM main.entries AS e
        LEFT JOIN main.ratings AS r ON r.entry = e.id
            AND r.period = (SELECT max(period) FROM main.ratings WHERE entry = e.id)
        LEFT JOIN (SELECT x, sum(games) AS games, sum(score) AS score FROM payoff GROUP BY x) AS total
            ON total.x = e.id""",
)
"""Views that every connection creates itself. A file contains none, because a stored view would run the SQL of an
untrusted author."""


T = TypeVar("T")
Schema = dict[str, tuple[str, str, str]]
"""Type, table and SQL of each table, index, view and trigger, by name."""
logger = logging.getLogger(__name__)

ATTEMPT_S = 1.0
"""Seconds that one attempt waits for a lock."""
PAUSE_S = 0.05
"""Seconds between two attempts."""
TELL_S = 10.0
"""Seconds between two warnings that another process holds the lock."""
PATIENCE_S = 600.0
"""Seconds for which attempts are repeated, unless `Database.patience_s` is shorter."""
SETTINGS = ("trusted_schema = OFF", "cell_size_check = ON", "foreign_keys = ON", "synchronous = FULL")
LONGEST_VALUE = 16 << 20
"""Maximum number of bytes of a value or a row; the largest ones are the settings and the statistics of a match."""
LONGEST_SAID = 200
"""Maximum length of SQLite's message in an error; it may quote the file."""
STEPS = 1 << 18
"""Instructions of SQLite's virtual machine between two calls of the progress handler."""
FEWEST_STEPS = 16 * STEPS
STEPS_PER_BYTE = 4
"""A statement may use `FEWEST_STEPS` plus this many steps per byte of the file; normal queries use up to 0.04."""
MOST_OBJECTS = 100
"""Maximum number of tables, indices and views that are compared with the schema."""
OBJECTS = f"SELECT name, type, tbl_name, sql FROM sqlite_master LIMIT {MOST_OBJECTS}"
STATISTICS = "sqlite_stat"
"""Prefix of the tables that SQLite's ANALYZE adds."""


def close_quietly(connection: sqlite3.Connection) -> None:
    """Close a connection.

    In another thread this does nothing, because SQLite then frees the connection itself.
    """
    with contextlib.suppress(sqlite3.ProgrammingError):
        connection.close()


class Database:
    """An open database of a league.

    Args:
        path: the file, which must exist.
        mode: access mode of SQLite; `immutable` assumes that no process writes to the file meanwhile.
    """

    def __init__(self, path: Path, mode: Literal["ro", "rw", "immutable"]) -> None:
        self.path, self.steps, self.patience_s = path, 0, PATIENCE_S
        uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={'ro&immutable=1' if mode == 'immutable' else mode}"
        self.connection = self._retrying(lambda: sqlite3.connect(uri, ATTEMPT_S, isolation_level=None, uri=True))
        # If the caller forgets `close`, the garbage collector closes the connection; Python 3.13 warns about open ones.
        self.close = weakref.finalize(self, close_quietly, self.connection)
        self.connection.set_progress_handler(self._is_endless, STEPS)
        if sys.version_info >= (3, 11):
            self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        for setting in SETTINGS:
            self.execute(f"PRAGMA {setting}")

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute an SQL statement with bound values and return its rows."""
        return self._retrying(lambda: self.connection.execute(statement, values).fetchall())

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> int:
        """Execute an SQL statement for each row of values; return the number of changed rows."""
        before, all_rows = self.connection.total_changes, list(rows)
        self._retrying(lambda: self.connection.executemany(statement, all_rows))
        return self.connection.total_changes - before

    def insert(self, table: str, rows: Sequence[Sequence[Any]], or_what: str = "") -> None:
        """Insert rows with a value for every column of the table, or for the columns in brackets after its name."""
        if rows:
            self.executemany(f"INSERT {or_what} INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Context manager for an atomic, durable transaction; a nested transaction joins the outermost one.

        The transaction holds the write lock from its start, and its changes are on the disk when it ends.
        """
        if self.connection.in_transaction:
            yield
            return
        try:
            self.execute("BEGIN IMMEDIATE")
            yield
            self.execute("COMMIT")
        except BaseException:
            # If the disk was full, SQLite has already rolled back the transaction.
            if self.connection.in_transaction:
                with contextlib.suppress(FileError):
                    self.execute("ROLLBACK")
            raise

    def _retrying(self, work: Callable[[], T]) -> T:
        """Run `work`, and retry it while the file is locked; a statement that fails on a lock has changed nothing."""
        start_s = last_warning_s = time.monotonic()
        while True:
            self.steps = 0
            try:
                return work()
            except (sqlite3.Error, UnicodeError, OverflowError) as error:
                now_s = time.monotonic()
                if str(error) == "interrupted" and not self._is_spent():
                    # SQLite was interrupted below its step limit, so a signal such as Ctrl-C arrived.
                    raise KeyboardInterrupt from None
                if not is_locked(error) or now_s - start_s >= self.patience_s:
                    # After this timeout, the clean-up must not wait for the lock again.
                    self.patience_s = 0.0
                    raise FileError(f"{self.path}: {self._explained(error, now_s - start_s)}") from None
            if now_s - last_warning_s >= TELL_S:
                last_warning_s = now_s
                logger.warning("%s: locked by another process, retrying for %.0f s", self.path, now_s - start_s)
            time.sleep(PAUSE_S)

    def _explained(self, error: Exception, waited_s: float) -> str:
        message = one_line(error, LONGEST_SAID)
        if is_locked(error):
            return f"locked by another process for {waited_s:.0f} s: wait until it ends"
        if message == "interrupted":
            return f"not the file of a league: a query exceeded {self._most_steps()} steps"
        # An error message of SQLite may quote arbitrary bytes of the file, which raises UnicodeError.
        if type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeError):
            return f"not the file of a league, or corrupt: {message}"
        return f"cannot be read or written: {message}{self._hint()}"

    def _hint(self) -> str:
        """Return a hint if the database has a log file without its index file.

        To read such a database, SQLite must write to the folder.
        """
        log, index = (self.path.with_name(f"{self.path.name}{suffix}") for suffix in ("-wal", "-shm"))
        if not log.exists() or index.exists():
            return ""
        hint = "copy the league to a folder that can be written to"
        return f": {log.name} requires {index.name}, which is missing: {hint}"

    def _is_endless(self) -> bool:
        self.steps += STEPS
        return self._is_spent()

    def _is_spent(self) -> bool:
        return self.steps > FEWEST_STEPS and self.steps > self._most_steps()

    def _most_steps(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        # Count allocated blocks too, because a sparse file uses less space than its nominal size.
        sizes = [(file.stat().st_size, 512 * file.stat().st_blocks) for file in files if file.exists()]
        return FEWEST_STEPS + STEPS_PER_BYTE * sum(min(size, blocks) for size, blocks in sizes)


def is_locked(error: Exception) -> bool:
    return "database is locked" in str(error)


def make_database(path: Path) -> None:
    """Create the tables of a league in an empty file."""
    with closing(Database(path, "rw")) as database, database.transaction():
        for statement in TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")


def open_database(path: Path) -> Database:
    """Open the database of a league and create its views; open it read-only if the file is not writable.

    Raises:
        FileError: if the file is not that of a league, or has another version; the file is then unchanged.
    """
    is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    log = path.with_name(f"{path.name}-wal")
    # If a killed process left a write-ahead log, SQLite must write a file next to the database to read it.
    is_closed = not log.exists() or log.stat().st_size == 0
    # Check the file read-only first: opening it for writing may roll back a leftover journal and so change it.
    database = Database(path, "immutable" if not is_writable and is_closed else "ro")
    try:
        check_tables(database)
        check_pages(database)
        if is_writable:
            warn_of_network(path.parent)
            with closing(database):
                database = Database(path, "rw")
            database.execute("PRAGMA journal_mode = WAL")
        for view in VIEWS:
            database.execute(view)
    except BaseException:
        database.close()
        raise
    return database


def check_tables(database: Database) -> None:
    """Reject a database that is not a league's, or whose tables, indices or views are not those of this version."""
    mark, version = value_of(database, "application_id"), value_of(database, "user_version")
    label = f"{database.path}: not the file of a league"
    if mark == 0 and 1 <= version < VERSION and "matches" in schema_of(database.execute(OBJECTS)):
        hint = "leagues from before the first release are not supported: create a new one with `arena.py init`"
        raise FileError(f"{database.path}: version must be {VERSION}, got {version}: {hint}")
    expect(mark == APPLICATION_ID, f"{label}: application_id", f"{APPLICATION_ID}", mark)
    if version > VERSION:
        raise FileError(f"{database.path}: version must be at most {VERSION}, got {version}: use a newer Echelon")
    expect(version == VERSION, f"{label}: version", f"{VERSION}", version)
    schema, expected = schema_of(database.execute(OBJECTS)), expected_schema()
    for name in sorted(schema.keys() | expected.keys()):
        if schema.get(name) != expected.get(name):
            state = "missing" if name not in schema else "different" if name in expected else "unknown"
            kind, object_name = (expected.get(name) or schema[name])[0], name[:100]
            raise FileError(
                f"{label}: schema must be that of version {version}, got {kind!r:.20} {object_name!r}, {state}"
            )


def check_pages(database: Database) -> None:
    """Reject a database with inconsistent pages, such as cycles: queries might not end, and writes might be lost.

    This check takes about 1 ms per MB of the database.
    """
    ((status,),) = database.execute("PRAGMA quick_check(1)")
    if status != "ok":
        raise FileError(f"{database.path}: not the file of a league, or corrupt: {one_line(status, LONGEST_SAID)}")


def schema_of(rows: Iterable[tuple[Any, ...]]) -> Schema:
    objects = [row for row in rows if not str(row[0]).startswith(STATISTICS)]
    return {str(name): (str(kind), str(table), " ".join(str(sql).split())) for name, kind, table, sql in objects}


@functools.cache
def expected_schema() -> Schema:
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in TABLES:
            database.execute(statement)
        return schema_of(database.execute(OBJECTS))


def value_of(database: Database, pragma: str) -> int:
    """Return an integer from the header of the SQLite file."""
    return int(database.execute(f"PRAGMA {pragma}")[0][0])


LONGEST_REASON = 1000
"""Maximum number of characters of a recorded reason."""
LONGEST_NAME = 100
MOST_PERIODS = 1 << 40
NUMBER = checks.number(-1e9, 1e9)
Rules = Mapping[str, checks.Check]
"""The check of each column."""
SECONDS = checks.number(0, 1e12)
"""A Unix time or a duration, in seconds."""
NAME = checks.matching(
    f"(?!.{{{LONGEST_NAME + 1}}})(heuristic:({'|'.join(TIERS)})@[1-9][0-9]{{0,5}}|[a-z0-9]+(-[a-z0-9]+){{0,9}})",
    f"lower-case letters and digits in words joined by -, or heuristic:TIER@RULES, of at most {LONGEST_NAME} letters",
)


RULES: dict[str, Rules] = {
    "entries": {
        "id": checks.SHA256,
        "kind": checks.one_of(KINDS),
        "name": NAME,
        "parent": checks.optional(checks.SHA256),
        "env": checks.text(),
        "created": SECONDS,
    },
    "periods": {"number": checks.integer(1, MOST_PERIODS), "opened": SECONDS, "closed": checks.optional(SECONDS)},
    "matches": {
        "key": checks.text(1000),
        "period": checks.integer(1, MOST_PERIODS),
        "blue": checks.SHA256,
        "red": checks.SHA256,
        "seed": checks.integer(0),
        "recipe": checks.text(500),
        "winner": checks.integer(0, 2),
        "reason": checks.text(100),
        "decisions": checks.integer(1),
        "duration_s": SECONDS,
        "stats": checks.text(),
        "created": SECONDS,
        "state_hash": checks.matching("[0-9a-f]{16}", "16 hexadecimal digits"),
    },
    "ratings": {
        "period": checks.integer(1, MOST_PERIODS),
        "entry": checks.SHA256,
        "rating": checks.number(-1e5, 1e5),
        "deviation": checks.number(1e-3, DEVIATION),
        "volatility": checks.number(1e-6, 10),
    },
    "changes": {
        "number": checks.integer(1),
        "period": checks.integer(1, MOST_PERIODS),
        "entry": checks.optional(checks.SHA256),
        "change": checks.one_of(CHANGES),
        "reason": checks.text(LONGEST_REASON),
        "created": SECONDS,
    },
    "exploits": {
        "entry": checks.SHA256,
        "response": checks.SHA256,
        "agent_steps": checks.integer(1),
        "battles": checks.integer(1),
        "bound": checks.number(-1, 1),
        "low": checks.number(-1, 1),
        "high": checks.number(-1, 1),
        "created": SECONDS,
    },
    "standings": {"games": checks.integer(0), "score": checks.number(0, 1 << 62)},
    "claims": {"owner": checks.matching("[0-9a-f]{32}", "32 hexadecimal digits")},
    "role": {
        "generation": checks.integer(0, 1 << 30),
        "turns": checks.integer(0, 1 << 30),
        "entry": checks.text(64),
        "judged": checks.table(checks.row(SECONDS, SECONDS), 1 << 20, checks.SHA256),  # games and points, by id
    },
    "style": {
        **dict.fromkeys(("policy", "task", "fingerprint"), checks.text(LONGEST_NAME)),
        **dict.fromkeys(("numbers", "response"), checks.table(NUMBER, 10_000, checks.text())),
        "seeds": checks.listed(checks.integer(0), 0, 1 << 20),
        "versions": checks.OBJECT,
    },
}


def check_values(where: str, row: Mapping[str, Any], rules: Rules) -> None:
    """Check the values of a row whose columns have a rule."""
    for field, value in row.items():
        if field in rules:
            rules[field](f"{where}.{field}", value)


def json_object(where: str, value: Any) -> dict[str, Any]:
    """Parse a JSON object that is stored in the league."""
    parsed = parse_json(where, value.encode()) if isinstance(value, str) else value
    expect(isinstance(parsed, dict), where, "a JSON object", parsed)
    return dict(parsed)


def check_identity(where: str, id: str, name: str, kind: str) -> None:
    """Check that the id, the name and the kind of an entry agree; each must be valid by itself.

    A scripted tier (a built-in commander) must have the id that follows from its name, and the kind `scripted` or
    `retired`; no other entry may be of kind `scripted`.
    """
    expected_id = scripted_id(name)
    expect(expected_id in (None, id), f"{where}.id", f"{expected_id}, the id of {name}", id)
    kinds = ("scripted", "retired") if expected_id is not None else tuple(kind for kind in KINDS if kind != "scripted")
    expect(kind in kinds, f"{where}.kind", f"one of {kinds}, as the name of the entry implies", kind)


def check_rules(where: str, env: dict[str, Any]) -> None:
    """Reject a league made for another version of the game rules: its matches and ratings do not apply to this one."""
    rules = current_versions().rules
    with as_file_error(where):
        file_rules = stored_versions(env, "env").rules
    if file_rules != rules:
        hint = "matches and ratings are valid only under their rules; `arena.py add` adds its weights/* to a new league"
        raise FileError(f"{where}: env.rules_version must be {rules}, got {file_rules}: {hint}")
