"""Untrusted and long exported leagues: read and written row by row, in bounded memory."""

import io
import itertools
import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from leagues import checkpoint_of, fought, fresh

from echelon.league.import_export import COLUMNS, read_league, write_league
from echelon.league.rating_period import close_period
from echelon.league.store import FILE, Store
from echelon.rules.versions import current_versions
from echelon.runtime import json_tables
from echelon.runtime.files import FileError, json_bytes, parse_json
from echelon.runtime.json_tables import LONGEST_ROW, read_tables, table_bytes
from hostile.refusals import refusal

pytestmark = pytest.mark.long

MIB = 1 << 20
LONG = 24 * MIB
"""Size of the test files, in bytes; the limit is 256 MiB."""
LITTLE = 12 * MIB
"""Memory limit for reading or writing a valid file, in bytes: a chunk, its text, and some hundred rows."""
SOME = 100 * MIB
"""Memory limit for refusing a nested list of maximum length, in bytes."""


def peak(act: Callable[[], object]) -> int:
    """Return the peak Python memory during `act`, minus the memory before it, in bytes."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def sent(tmp_path_factory) -> Path:
    """Return an exported league with a row in every table."""
    home = tmp_path_factory.mktemp("sent")
    store = fresh(home)
    parent = store.add(checkpoint_of(home, 1))
    child = store.add(checkpoint_of(home, 2), parent=parent.id)
    store.record([fought(parent.id, child.id, 0), fought(child.id, parent.id, 0)])
    close_period(store)
    store.close()
    write_league(Store(home / "league"), home / "out" / "league.json")
    return home / "out" / "league.json"


@pytest.fixture
def path(sent, tmp_path) -> Path:
    """Return a copy of the export with its weights."""
    return shutil.copytree(sent.parent, tmp_path / "sent") / sent.name


def files_of(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# Long valid files


@pytest.mark.requirement("R10")
def test_long_league_export_uses_bounded_memory(tmp_path):
    store = fresh(tmp_path)
    one, two, *_ = (entry.id for entry in store.entries())
    stats = json.dumps({"note": "x" * 60_000})
    store.record([fought(one, two, seed)._replace(stats=stats) for seed in range(LONG // 60_000)])
    path = tmp_path / "out" / "league.json"
    assert peak(lambda: write_league(store, path)) < LITTLE
    assert path.stat().st_size > LONG
    assert peak(lambda: read_league(path, tmp_path / "other")) < LITTLE
    assert Store(tmp_path / "other").matches() == store.matches()


def test_many_small_rows_use_bounded_memory(tmp_path):
    path = tmp_path / "sent" / "league.json"
    write_league(fresh(tmp_path), path)
    document = json.loads(path.read_bytes())
    document["periods"][-1:] = [{"number": n, "opened": 1, "closed": 2} for n in range(1, 40_000)]
    document["periods"].append({"number": 40_000, "opened": 1, "closed": None})
    path.write_text(json.dumps(document))
    assert peak(lambda: read_league(path, tmp_path / "other")) < 8 * MIB
    assert Store(tmp_path / "other").period == 40_000


def test_streamed_export_equals_single_write(path):
    document = parse_json("file", path.read_bytes())
    document["ratings"] = []
    values = {key: value for key, value in document.items() if key not in COLUMNS} | {"more": ["a\nb", {}, [[]]]}
    tables = {key: document[key] for key in COLUMNS}
    assert b"".join(table_bytes(values, tables)) == json_bytes({**values, **tables})
    assert path.read_bytes() == json_bytes(json.loads(path.read_bytes()))


@pytest.mark.parametrize("way", ["sorted", "reversed", "compact", "wide", "utf-16", "utf-8-sig"])
def test_import_ignores_whitespace_order_and_encoding(path, tmp_path, way):
    document, theirs = json.loads(path.read_bytes()), read_league(path, tmp_path / "as it was")
    if way in ("sorted", "reversed"):
        document = {key: document[key] for key in sorted(document, reverse=way == "reversed")}
    indent, separators = {"compact": (None, (",", ":")), "wide": ("\r\n\t  ", (" ,", " : "))}.get(way, (None, None))
    text = json.dumps(document, indent=indent, separators=separators)
    path.write_bytes(text.encode(way if way.startswith("utf") else "utf-8"))
    ours = read_league(path, tmp_path / "other")
    assert ours.entries() == theirs.entries() and len(ours.entries()) == len(document["entries"])
    assert ours.matches() == theirs.matches() and len(ours.matches()) == 2
    assert ours.changes() == theirs.changes() and ours.standings() == theirs.standings()


KINDS = b' {"a" : [ {"b": [1, -2.5e3, null]}, 3, "\\u00e9\\"]", {} ] ,"c":NaN, "d\xc3\xa9": {"e": true},\n"f": []} '


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7])
def test_parser_accepts_any_chunk_size(monkeypatch, chunk):
    """At the end of each chunk."""
    monkeypatch.setattr(json_tables, "CHUNK_BYTES", chunk)
    found = list(read_tables("file", io.BytesIO(KINDS), len(KINDS), ("a", "f"), only_finite=False))
    rows = [{"b": [1, -2.5e3, None]}, 3, 'é"]', {}]
    assert [str(part) for part in found] == [
        *(str(part) for part in [("a", None, []), *(("a", number, row) for number, row in enumerate(rows))]),
        *(str(part) for part in [("c", None, float("nan")), ("dé", None, {"e": True}), ("f", None, [])]),
    ]
    for end in range(1, len(KINDS.rstrip())):
        with pytest.raises(FileError, match=r"file.*: not valid JSON"):
            list(read_tables("file", io.BytesIO(KINDS[:end]), end, ("a", "f"), only_finite=False))
    with pytest.raises(FileError, match=f"file: expected at most {len(KINDS) - 2} bytes, got more"):
        list(read_tables("file", io.BytesIO(KINDS), len(KINDS) - 2, ("a", "f"), only_finite=False))


# Untrusted files

VERSIONS = json.dumps(current_versions().as_json())
START = f'{{"schema": "echelon-league", "version": 1, "env": {VERSIONS}, "rules": {{}}, '.encode()
TOO_LONG = f"not valid JSON, or more than {LONGEST_ROW} letters of it"
CASES: dict[str, tuple[bytes, bytes, str]] = {
    "rows that are none": (b'"entries": [', b"{}, ", "entries[0].id is missing"),
    "a row of lists": (b'"entries": [[', b"[], ", f"entries[0]: {TOO_LONG}"),
    "a row of lists in lists": (b'"entries": [', b"[", "entries[0]: not valid JSON: maximum recursion depth"),
    "a giant text as a row": (b'"entries": ["', b"x", f"entries[0]: {TOO_LONG}"),
    "a giant text in a row": (b'"entries": [{"id": "', b"x", f"entries[0]: {TOO_LONG}"),
    "a giant number": (b'"entries": [', b"1", "entries[0]: expected integers of 64 bits"),
    "a giant table": (b'"entries": "', b"x", f"entries: {TOO_LONG}"),
    "a giant key": (b'"', b"x", "a key: not valid JSON, or more than 1000 letters of it"),
    "a giant setting": (b'"written_by": "', b"x", "written_by: not valid JSON, or more than 4194"),
    "a wrong version": (b'"schema": 2, ', b" ", "duplicate key 'schema'"),
    "a table twice": (b'"entries": [], "periods": [], "entries": [', b"{}, ", "duplicate key 'entries'"),
    "a key twice in a row": (b'"entries": [{"id": 1, "id": 2}', b", {}", "entries[0]: duplicate key 'id'"),
    "a deep row": (b'"entries": [' + b"[" * 65 + b"]" * 65, b", {}", "entries[0]: expected JSON nested at most 64"),
    "half a letter": (b'"entries": [] \xff', b" ", "not valid JSON: 'utf-8' codec can't decode byte 0xff"),
    "nothing more": (b'"entries": []', b" ", "not valid JSON: expected ',' or '}', got '' at letter "),
    "more than an object": (b'"entries": []}', b" 0", "not valid JSON: expected the end of the file at letter "),
}


@pytest.mark.requirement("R10", "R31")
@pytest.mark.parametrize("case", CASES)
def test_invalid_export_is_refused_in_bounded_memory(tmp_path, case):
    """Refuse the file at its first error, without reading the rest."""
    start, more, says = CASES[case]
    path, other = tmp_path / "league.json", tmp_path / "a" / "b"
    with open(path, "wb") as file:
        file.write(START + start)
        for _ in range(LONG // MIB):
            file.write(more * (MIB // len(more)))
    before = files_of(tmp_path)
    assert peak(lambda: refusal(lambda: read_league(path, other), f"league.json: {says}")) < SOME
    assert files_of(tmp_path) == before, "nothing is made"


def test_too_many_keys_are_refused(tmp_path):
    path = tmp_path / "league.json"
    keys = ", ".join(f'"{number}": 0' for number in range(MIB))
    path.write_bytes(START + f"{keys}, ".encode())
    says = "league.json: expected at most 100 keys, got more"
    assert peak(lambda: refusal(lambda: read_league(path, tmp_path / "other"), says)) < LITTLE


def test_settings_share_size_limit(tmp_path):
    """Settings share one size limit, so that many long settings are refused."""
    path = tmp_path / "league.json"
    path.write_bytes(START + b", ".join(b'"%d": "%s"' % (key, b"x" * MIB) for key in range(24)))
    message = refusal(lambda: read_league(path, tmp_path / "other"), "league.json: 3: not valid JSON, or more than ")
    assert "letters of it" in message


@pytest.mark.requirement("R31")
def test_first_invalid_row_is_reported_before_sparse_data(path, tmp_path):
    """The remaining 250 MiB of zeros are not read."""
    document = json.loads(path.read_bytes())
    document["matches"][0]["winner"] = 7
    text = json.dumps(document)
    path.write_text(text[: text.index('"matches": ') + len(json.dumps(document["matches"])) + 10])
    with open(path, "r+b") as file:
        file.truncate(250 * MIB)
    act = lambda: read_league(path, tmp_path / "other")  # noqa: E731
    assert peak(lambda: refusal(act, "league.json: matches[0].winner must be an integer 0..2, got 7")) < LITTLE


@pytest.mark.requirement("R31")
@pytest.mark.parametrize(
    ("table", "change", "says"),
    [
        ("matches", {"red": "0" * 64}, "matches[1].red must name a known entry"),
        ("matches", {"period": 9}, "matches[1].period must name a known period, got 9"),
        ("matches", {"seed": 9}, "matches[1].key must be '"),
        ("ratings", {"period": 2}, "ratings[1].period must be a closed period, got 2"),
        ("changes", {"entry": "0" * 64}, "changes[1].entry must name a known entry"),
    ],
)
def test_references_are_checked_for_any_table_order(path, tmp_path, table, change, says):
    document = json.loads(path.read_bytes())
    document[table][1].update(change)
    for keys in itertools.islice(itertools.permutations(COLUMNS), 0, None, 77):
        path.write_text(json.dumps({**{key: document[key] for key in keys}, **document}))
        refusal(lambda: read_league(path, tmp_path / "other"), f"league.json: {says}")
    assert not (tmp_path / "other").exists()


def test_first_of_two_invalid_rows_is_reported(path, tmp_path):
    """Rows are inserted in batches of hundreds, which detect duplicates."""
    document = json.loads(path.read_bytes())
    document["changes"] += [document["changes"][0], {**document["changes"][1], "number": -1}]
    path.write_text(json.dumps(document))
    number = len(document["changes"]) - 2
    refusal(lambda: read_league(path, tmp_path / "other"), f"league.json: changes[{number}].number must be unique")


def test_invalid_league_is_not_exported(path, tmp_path):
    """A league with broken references, whose export would be refused."""
    store = read_league(path, tmp_path / "other")
    store.execute("PRAGMA foreign_keys = OFF")
    store.execute("UPDATE matches SET red = ? WHERE rowid = 2", "0" * 64)
    before = files_of(tmp_path)
    says = f"{tmp_path / 'other' / FILE}: matches[1].red must name a known entry, got '000"
    refusal(lambda: write_league(store, tmp_path / "out.json"), says)
    assert files_of(tmp_path) - {tmp_path / "weights"} == before
