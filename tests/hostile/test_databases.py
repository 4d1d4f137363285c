"""Untrusted databases: refused quickly in one line that names the error, without any write to the file."""

import hashlib
import json
import math
import random
import re
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from leagues import BRIEF, checkpoint_of, fought

from echelon.league.commands import entry_rows, exploitabilities
from echelon.league.config import LeagueConfig
from echelon.league.database import APPLICATION_ID, FEWEST_STEPS, Database
from echelon.league.evolution import Role
from echelon.league.import_export import write_league
from echelon.league.league_arena import claiming
from echelon.league.matchmaking import round_robin
from echelon.league.rating_period import close_period
from echelon.league.store import FILE, Store
from echelon.rules.config_json import as_json
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

pytestmark = pytest.mark.long

LONGEST_S = 2.0
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.fixture(scope="module")
def league(tmp_path_factory) -> Path:
    """Return a league with a row in every table, in one file without a log."""
    home = tmp_path_factory.mktemp("league")
    store = Store.create(home / "league", BRIEF)
    entry = store.add(checkpoint_of(home, 1))
    one, two, *_ = store.entries("scripted")
    store.record([fought(one.id, two.id, 1), fought(two.id, entry.id, 2, 0)])
    close_period(store)
    store.record([fought(one.id, entry.id, 3)])
    with store.writing():
        store.set_setting("role main", {"generation": 0, "turns": 1, "entry": entry.id, "judged": {one.id: [2.0, 1.0]}})
        store.execute("INSERT INTO claims VALUES (?, ?, 9, ?)", one.id, two.id, "0" * 32)
        store.execute("INSERT INTO exploits VALUES (?, ?, 640, 4, 0.5, -0.1, 0.9, 1.0)", one.id, entry.id)
    store.close()
    return store.folder


def use(folder: Path) -> list[str]:
    """Use a league in all ways; return the messages of refusals."""

    def play(store: Store) -> None:
        battles = round_robin([entry.id for entry in store.active()], [5])
        with claiming(store) as claims:
            claims.claim(battles, 2)

    uses = (
        *(entry_rows, Store.standings, Store.payoff, Store.matches, Store.changes, play),
        lambda store: store.played(round_robin([entry.id for entry in store.active()], [5])),
        exploitabilities,
        lambda store: [store.role(role.value) for role in Role],
        lambda store: [store.history(entry) for entry in store.entries()],
        lambda store: write_league(store, folder.parent / "out" / "league.json"),
        close_period,
    )
    said = []
    try:
        store = Store(folder)
    except (FileError, ConfigError) as error:
        return [str(error)]
    with closing(store):
        for work in uses:
            try:
                work(store)
            except (FileError, ConfigError) as error:
                said.append(str(error))
    return said


def used(league: Path, home: Path, spoil) -> tuple[list[str], float]:
    """Return the messages about a corrupt league, and the elapsed seconds."""
    folder = shutil.copytree(league, home / "league")
    spoil(folder / FILE)
    began = time.process_time()
    said = use(folder)
    took_s = time.process_time() - began
    for line in said:
        assert line.isprintable() and len(line) < 2000, line
    return said, took_s


def sql(*statements: str, values: tuple = ()):
    """Return a function that corrupts a database by valid SQL."""

    def spoil(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            for statement in statements:
                database.execute(statement, values if "?" in statement else ())

    return spoil


def in_schema(before: str, after: str):
    """Return a function that changes the stored text of the schema."""
    return sql(
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{before}', '{after}')",
        "PRAGMA writable_schema = RESET",
    )


def foreign(*statements: str):
    """Return a function that replaces a database by a foreign one."""

    def spoil(path: Path) -> None:
        path.unlink()
        sql(*statements)(path)

    return spoil


MARK = f"application_id must be {APPLICATION_ID}, got "
SCHEMAS = {
    "database of notes": (foreign("CREATE TABLE notes (line TEXT)", "INSERT INTO notes VALUES ('dear')"), MARK + "0"),
    "a table called league": (foreign("CREATE TABLE league (name TEXT PRIMARY KEY, value TEXT NOT NULL)"), MARK + "0"),
    "nothing": (foreign("PRAGMA user_version = 0", "VACUUM"), MARK + "0"),
    "an empty file": (lambda path: path.write_bytes(b""), MARK + "0"),
    "a geopackage": (foreign("PRAGMA application_id = 1196444487", "CREATE TABLE a (b)"), MARK + "1196444487"),
    "our tables with another's mark": (sql("PRAGMA application_id = 252006673"), MARK + "252006673"),
    "a negative mark": (sql("PRAGMA application_id = -1"), MARK + "-1"),
    "our tables unmarked": (sql("PRAGMA application_id = 0"), MARK + "0"),
    "our tables of a version before marks": (
        sql("PRAGMA application_id = 0", "PRAGMA user_version = 4"),
        "version must be 6, got 4: leagues from before the first release are not supported",
    ),
    "another's log of version 3": (foreign("CREATE TABLE a (b)", "PRAGMA user_version = 3"), MARK + "0"),
    "another's in WAL": (foreign("PRAGMA journal_mode = WAL", "CREATE TABLE a (b)"), MARK + "0"),
    "version 0": (sql("PRAGMA user_version = 0"), "version must be 6, got 0"),
    "version -1": (sql("PRAGMA user_version = -1"), "version must be 6, got -1"),
    "version 4 with a mark": (sql("PRAGMA user_version = 4"), "version must be 6, got 4"),
    "a version to come": (sql("PRAGMA user_version = 7"), "version must be at most 6, got 7: use a newer Echelon"),
    "the last version": (sql("PRAGMA user_version = 2147483647"), "version must be at most 6"),
    "another table": (sql("CREATE TABLE extra (a)"), "got 'table' 'extra', unknown"),
    "another index": (sql("CREATE INDEX extra ON matches (seed)"), "got 'index' 'extra', unknown"),
    "an index of expressions": (sql("CREATE INDEX extra ON matches (abs(seed))"), "got 'index' 'extra', unknown"),
    "a view": (sql("CREATE VIEW extra AS SELECT 1"), "got 'view' 'extra', unknown"),
    "an endless view": (sql(f"CREATE VIEW extra AS {ENDLESS}"), "got 'view' 'extra', unknown"),
    "an endless view called standings": (
        sql(f"CREATE VIEW standings AS {ENDLESS}"),
        "got 'view' 'standings', unknown",
    ),
    "an endless view for a table": (
        sql(
            "DROP TABLE claims",
            f"CREATE VIEW claims AS SELECT '' AS blue, '' AS red, i AS seed, '' AS owner FROM ({ENDLESS})",
        ),
        "got 'table' 'claims', different",
    ),
    "a trigger": (
        sql("CREATE TRIGGER extra AFTER INSERT ON matches BEGIN DELETE FROM ratings; END"),
        "got 'trigger' 'extra', unknown",
    ),
    "an endless trigger": (
        sql(f"CREATE TRIGGER extra BEFORE DELETE ON claims BEGIN INSERT INTO league SELECT i, i FROM ({ENDLESS}); END"),
        "got 'trigger' 'extra', unknown",
    ),
    "a trigger that refuses": (
        sql("CREATE TRIGGER extra BEFORE INSERT ON matches BEGIN SELECT raise(IGNORE); END"),
        "got 'trigger' 'extra', unknown",
    ),
    "a trigger that calls itself": (
        sql("CREATE TRIGGER extra AFTER INSERT ON claims BEGIN INSERT INTO claims VALUES (NEW.blue, 'x', 1, 'x'); END"),
        "got 'trigger' 'extra', unknown",
    ),
    "a table is missing": (sql("DROP TABLE claims"), "got 'table' 'claims', missing"),
    "an index is missing": (sql("DROP INDEX matches_of_a_period"), "got 'index' 'matches_of_a_period', missing"),
    "a column is missing": (sql("ALTER TABLE matches DROP COLUMN state_hash"), "got 'table' 'matches', different"),
    "a column more": (sql("ALTER TABLE entries ADD COLUMN extra"), "got 'table' 'entries', different"),
    "a column renamed": (sql("ALTER TABLE claims RENAME COLUMN owner TO holder"), "got 'table' 'claims', different"),
    "a computed column": (
        sql("ALTER TABLE claims ADD COLUMN extra AS (zeroblob(1000000000))"),
        "got 'table' 'claims', different",
    ),
    "a check less": (in_schema("CHECK (deviation > 0)", ""), "got 'table' 'ratings', different"),
    "a check more": (in_schema("seed INTEGER NOT NULL", "seed INTEGER NOT NULL CHECK (abs(seed))"), "another"),
    "another type": (in_schema("rating REAL", "rating TEXT"), "got 'table' 'ratings', different"),
    "another default": (in_schema("DEFAULT ''''", "DEFAULT 7"), "got 'table' 'matches', different"),
    "another order of letters": (in_schema("owner TEXT", "owner TEXT COLLATE NOCASE"), "another"),
    "a schema that is no SQL": (in_schema("CREATE TABLE", "CREATE MABLE"), "malformed"),
    "a schema with escape codes": (in_schema("CREATE TABLE", "\x1b[31mCREATE"), "malformed"),
    "a schema that is vast": (
        sql(
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = sql || '/*' || hex(zeroblob(20000000)) || '*/' WHERE name = 'claims'",
        ),
        "too big|got 'table' 'claims', different",
    ),
    "a virtual table": (sql("CREATE VIRTUAL TABLE extra USING fts5(a)"), "got 'table' 'extra', unknown"),
    "a name with escape codes": (sql('CREATE TABLE "\x1b[2J\x1b]0;x\x07" (a)'), r"got 'table' '\\x1b\[2J"),
    "a name of a million letters": (sql(f'CREATE TABLE "{"x" * 1_000_000}" (a)'), "got 'table' 'xxx"),
    "many tables": (sql(*(f"CREATE TABLE extra_{number} (a)" for number in range(150))), "unknown|missing"),
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_foreign_schema_is_refused_and_not_modified(league, tmp_path, case):
    spoil, message = SCHEMAS[case]
    folder = shutil.copytree(league, tmp_path / "league")
    path = folder / FILE
    spoil(path)
    before = hashlib.sha256(path.read_bytes()).digest()
    began = time.process_time()
    with pytest.raises(FileError, match=message) as error:
        Store(folder)
    assert time.process_time() - began < LONGEST_S
    said = str(error.value)
    assert str(path) in said and said.isprintable() and len(said) < 1000
    assert hashlib.sha256(path.read_bytes()).digest() == before


TEXTS = {
    "bytes": b"\x00\xff",
    "escape codes": "\x1b[2J",
    "a line break": "a\nb",
    "a million letters": "x" * 1_000_000,
    "no text at all": memoryview(b"\xff\xfe"),
}
NUMBERS = {
    "text": "many",
    "bytes": b"\x00",
    "infinity": math.inf,
    "less than any": -(2**63),
    "more than any": 2**63 - 1,
}
COLUMNS = {
    "entries": (("id", "kind", "name", "parent", "env"), ("created",)),
    "matches": (("key", "blue", "red", "recipe", "reason", "stats", "state_hash"),
                ("period", "seed", "winner", "decisions", "duration_s", "created")),
    "ratings": (("entry",), ("period", "rating", "deviation", "volatility")),
    "changes": (("entry", "change", "reason"), ("period", "created")),
    "periods": ((), ("opened", "closed")),
    "exploits": (("entry", "response"), ("agent_steps", "battles", "bound", "low", "high", "created")),
}  # fmt: skip
VALUES = {
    f"{what} in {table}.{column}": (table, column, value)
    for table, kinds in COLUMNS.items()
    for columns, values in zip(kinds, (TEXTS, NUMBERS), strict=True)
    for column in columns
    for what, value in values.items()
}


@pytest.mark.parametrize("case", VALUES)
def test_invalid_value_error_names_column(league, tmp_path, case):
    table, column, value = VALUES[case]
    mark = "CAST(? AS TEXT)" if isinstance(value, memoryview) else "?"
    row = f"(SELECT max(rowid) FROM {table})"
    said, took_s = used(
        league, tmp_path, sql(f"UPDATE {table} SET {column} = {mark} WHERE rowid = {row}", values=(value,))
    )
    assert said and took_s < LONGEST_S
    is_named = [f".{column} must be" in line or "must name" in line or "key must be" in line for line in said]
    is_no_text = isinstance(value, memoryview) and any("UTF-8" in line for line in said)
    assert any(is_named) or is_no_text, said


def setting(name: str, value: str | bytes | int):
    """Return a function that corrupts a setting."""
    return sql("INSERT OR REPLACE INTO league VALUES (?, ?)", values=(name, value))


def env(**values: object) -> str:
    return json.dumps({**BRIEF.signature(), **values})


CONFIG = as_json(LeagueConfig())
ROLE = {"generation": 0, "turns": 1, "entry": "", "judged": {}}
ROWS = {
    "env is no JSON": (setting("env", "{"), "env: not valid JSON"),
    "env is a list": (setting("env", "[]"), "env must be a JSON object"),
    "env is bytes": (setting("env", b"{}"), "env must be a JSON object"),
    "env is deep": (setting("env", "[" * 100_000), "env: not valid JSON"),
    "env twice": (setting("env", '{"a": 1, "a": 2}'), "duplicate key"),
    "env of no battle": (setting("env", env(comm_dim="eight")), "env.comm_dim must be"),
    "env of later rules": (setting("env", env(rules_version=99)), "rules_version must be at most"),
    "env of rules 0": (setting("env", env(rules_version=0)), "rules_version"),
    "rules are a text": (setting("rules", '"x"'), "rules must be a JSON object"),
    "rules that cannot be": (setting("rules", json.dumps({**CONFIG, "tau": -1.0})), "tau must be 0.001"),
    "rules that lack one": (setting("rules", "{}"), "rules must be complete: this LeagueConfig lacks tau, "),
    "unknown rules": (setting("rules", '{"x": 1}'), "rules.x must be absent"),
    "no settings": (sql("DELETE FROM league"), "expected the rules of a league, found none"),
    "a role of text": (setting("role main", '{"generation": "../.."}'), "role main.generation must be an integer"),
    "a role with more": (setting("role main", json.dumps({**ROLE, "x": 1})), "role main.x must be absent"),
    "a role that leads elsewhere": (
        setting("role main", json.dumps({**ROLE, "generation": "../../x"})),
        "role main.generation must be an integer",
    ),
    "a role with an unknown judged entry": (
        setting("role main", json.dumps({**ROLE, "judged": {"x": [1, 2]}})),
        "role main.judged must be a sha256",
    ),
    "a role that judges by text": (
        setting("role main", json.dumps({**ROLE, "judged": {"0" * 64: ["1", 2]}})),
        r"judged.0*.0. must be a number",
    ),
    "no period": (sql("PRAGMA foreign_keys = OFF", "DELETE FROM periods"), "periods.0..number must be an integer"),
    "a period of the end of time": (
        sql(f"INSERT INTO periods VALUES ({2**63 - 1}, 0, NULL)"),
        "periods.0..number must be an integer",
    ),
    "no entries": (sql("DELETE FROM entries"), "a match must have two known entries"),
    "an entry that is gone": (
        sql("DELETE FROM entries WHERE rowid = 1"),
        "a match must have two known entries",
    ),
    "a match against itself": (sql("UPDATE matches SET red = blue"), "a match must have two known entries"),
    "a tier that is a candidate": (
        sql("UPDATE entries SET kind = 'candidate' WHERE rowid = 1"),
        "as the name of the entry implies",
    ),
    "a network that is a tier": (
        sql("UPDATE entries SET kind = 'scripted' WHERE name NOT LIKE 'h%'"),
        "as the name of the entry implies",
    ),
    "a tier with another id": (sql(f"UPDATE entries SET id = '{'a' * 64}' WHERE rowid = 2"), "id must be"),
    "an unknown tier": (sql("UPDATE entries SET name = 'heuristic:best@1' WHERE rowid = 1"), "name must be"),
    "a name that is a class": (sql("UPDATE entries SET name = 'os:system' WHERE rowid = 6"), "name must be"),
    "a name that is a path": (sql("UPDATE entries SET name = '../../x' WHERE rowid = 6"), "name must be"),
    "weights that lead elsewhere": (
        sql(f"UPDATE entries SET id = '{('../' * 22)[:64]}' WHERE rowid = 6"),
        "id must be a sha256",
    ),
    "weights that are not there": (
        sql(*(f"UPDATE {table} SET {column} = '{'f' * 64}' WHERE {column} = (SELECT id FROM entries WHERE rowid = 6)"
              for table, column in (("matches", "red"), ("matches", "blue"), ("ratings", "entry"), ("entries", "id")))),
        "expected a checkpoint folder|known entry|key must be",
    ),
    "an owner of claims that is a path": (sql("UPDATE claims SET owner = '../../victim'"), "owner must be 32"),
    "an owner of claims with a slash": (sql(f"UPDATE claims SET owner = '/{'0' * 31}'"), "claims.0..owner must be 32"),
    "an owner that is bytes": (sql("UPDATE claims SET owner = x'00'"), "claims.0..owner must be 32"),
    "a recipe that is no object": (sql("UPDATE matches SET recipe = '[]'"), "recipe must be a JSON object"),
    "a recipe of later rules": (sql("UPDATE matches SET recipe = '{\"rules_version\": 99}'"), "rules_version must be"),
    "a recipe of text": (sql("UPDATE matches SET recipe = '{\"rules_version\": \"x\"}'"), "rules_version"),
    "a rating of the open period": (sql("UPDATE ratings SET period = 2"), "must be a closed period"),
    "two open periods": (sql("UPDATE periods SET closed = NULL"), "must be a closed period|end with the only open one"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_invalid_row_is_refused(league, tmp_path, case):
    spoil, message = ROWS[case]
    victim = tmp_path / "victim"
    victim.write_text("a file of the user's")
    said, took_s = used(league, tmp_path, spoil)
    assert any(re.search(message, line) for line in said), said
    assert took_s < LONGEST_S and victim.read_text() == "a file of the user's"


PAGE = 4096


def root_of(path: Path, table: str) -> int:
    """Return the number of a table's first page."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]


def interior(child: int, cells: int = 400) -> bytes:
    """Return a table page with many references to one child."""
    page = bytearray(PAGE)
    page[0:12] = bytes(
        [5, 0, 0, *cells.to_bytes(2, "big"), *(PAGE - 5 * cells).to_bytes(2, "big"), 0]
    ) + child.to_bytes(4, "big")
    for number in range(cells):
        place = PAGE - 5 * (number + 1)
        page[place : place + 5] = child.to_bytes(4, "big") + b"\x01"
        page[12 + 2 * number : 14 + 2 * number] = place.to_bytes(2, "big")
    return bytes(page)


def endless_pages(table: str):
    """Corrupt a table: five pages, each 400 times the child of another, represent 10^13 rows."""

    def spoil(path: Path) -> None:
        root, data = root_of(path, table), bytearray(path.read_bytes())
        last = len(data) // PAGE
        leaf = bytes(data[PAGE * (root - 1) : PAGE * root])
        levels = [interior(last + 1 + number) for number in range(4)]
        data += leaf + b"".join(levels)
        data[PAGE * (root - 1) : PAGE * root] = interior(last + 5)
        data[28:32] = (len(data) // PAGE).to_bytes(4, "big")
        path.write_bytes(data)

    return spoil


def a_page_of_its_own(table: str):
    """Corrupt a table: its first page is its own child."""

    def spoil(path: Path) -> None:
        root = root_of(path, table)
        put(PAGE * (root - 1), interior(root))(path)

    return spoil


def put(place: int, values: bytes):
    """Overwrite bytes at an offset."""

    def spoil(path: Path) -> None:
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(values)

    return spoil


def page(table: str, values: bytes):
    """Overwrite the first page of a table."""
    return lambda path: put(PAGE * (root_of(path, table) - 1), values)(path)


def cut(share: float):
    """Truncate a database."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def grow(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(64 << 20)


PAGES = {
    "no database": (lambda path: path.write_bytes(b"not a database, but as long " * 100), "not a database"),
    "zeros": (lambda path: path.write_bytes(bytes(100_000)), "not a database"),
    "a header alone": (cut(0.001), "not the file of a league"),
    "a third of it": (cut(0.33), "corrupt: "),
    "all but the end": (cut(0.9), "corrupt: "),
    "pages of 3 bytes": (put(16, b"\x00\x03"), "not a database"),
    "a version of the format to come": (put(18, b"\x09\x09"), "not a database|readonly"),
    "an unknown text encoding": (put(56, b"\x00\x00\x00\x09"), ""),
    "another set of letters": (put(56, b"\x00\x00\x00\x02"), "not the file of a league|cannot be read|malformed"),
    "a schema of another format": (put(44, b"\x00\x00\x00\x63"), "unsupported file format"),
    "the schema's page is zeros": (put(100, bytes(PAGE - 100)), "corrupt: "),
    "the schema's page is another's": (put(100, b"\x05" + b"\xff" * 200), "corrupt: |schema must be"),
    "entries of zeros": (page("entries", bytes(PAGE)), "corrupt: "),
    "matches of ones": (page("matches", b"\xff" * PAGE), "corrupt: "),
    "ratings of an index": (page("ratings", b"\x0a" + bytes(200)), "corrupt: "),
    "settings cut off": (page("league", b"\x0d\x00\x00\xff\xff"), "corrupt: "),
    "periods without an end": (endless_pages("periods"), "corrupt: "),
    "matches without an end": (endless_pages("matches"), "corrupt: "),
    "entries without an end": (endless_pages("entries"), "corrupt: "),
    "changes without an end": (endless_pages("changes"), "corrupt: "),
    "claims without an end": (endless_pages("claims"), "corrupt: "),
    "matches in themselves": (a_page_of_its_own("matches"), "corrupt: "),
    "entries in themselves": (a_page_of_its_own("entries"), "corrupt: "),
    "claims in themselves": (a_page_of_its_own("claims"), "corrupt: "),
    "a folder as the log": (lambda path: path.with_name(f"{FILE}-wal").mkdir(), "unable to open database file"),
    "a folder as the index of the log": (
        lambda path: path.with_name(f"{FILE}-shm").mkdir(), "unable to open|disk I/O error|locked|readonly"
    ),
    "64 MiB of nothing": (grow, ""),
    "a log of noise": (lambda path: path.with_name(f"{FILE}-wal").write_bytes(b"\x37\x7f\x06\x82" + b"x" * 9000), ""),
    "a journal of noise": (lambda path: path.with_name(f"{FILE}-journal").write_bytes(b"noise" * 999), "readonly"),
}  # fmt: skip


@pytest.mark.parametrize("case", PAGES)
def test_corrupt_pages_are_refused_in_one_line(league, tmp_path, case):
    """Cases without a message are harmless."""
    spoil, message = PAGES[case]
    said, took_s = used(league, tmp_path, spoil)
    assert took_s < LONGEST_S
    if message:
        assert any(re.search(message, line) for line in said), said
    else:
        assert not said


@pytest.mark.parametrize("seed", range(24))
def test_flipped_bits_are_refused_in_one_line_or_harmless(league, tmp_path, seed):
    """Flip bits in row values, which are checked, and in SQLite's own structures."""
    chance = random.Random(seed)

    def spoil(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(40):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)

    _, took_s = used(league, tmp_path, spoil)
    assert took_s < LONGEST_S


def test_endless_query_is_aborted(league):
    with closing(Database(league / FILE, "rw")) as database:
        with pytest.raises(FileError, match="not the file of a league: a query exceeded"):
            database.execute(ENDLESS)
        assert database.execute("SELECT 1") == [(1,)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="its sqlite3 has no limits")
def test_oversized_value_is_refused(league):
    with closing(Database(league / FILE, "rw")) as database:
        for vast in ("zeroblob(1000000000)", "hex(zeroblob(16000000))"):
            with pytest.raises(FileError, match="string or blob too big"):
                database.execute(f"SELECT {vast}")


def test_query_limit_is_far_above_real_cost(tmp_path):
    """The largest queries of a league of 20,000 matches."""
    store = Store.create(tmp_path / "league", BRIEF)
    one, two, *_ = (entry.id for entry in store.entries())
    store.record([fought(one, two, seed) for seed in range(20_000)])
    for work in (Store.standings, Store.payoff, Store.played, Store.matches):
        work(store)
        assert store.database.steps <= FEWEST_STEPS / 2, work
