"""Export and import of a league, with validation of untrusted files (R10, R31)."""

import json
import time

import pytest
from leagues import checkpoint_of, fought, fresh

from echelon.league import import_export as trade
from echelon.league.import_export import read_league, write_league
from echelon.league.rating_period import close_period
from echelon.league.store import FILE
from echelon.rules.versions import RULES_VERSION
from echelon.runtime.files import FileError


def exported(tmp_path):
    """Return a league with a child and its parent, matches and a closed period, and its exported file."""
    store = fresh(tmp_path)
    parent = store.add(checkpoint_of(tmp_path, 1))
    child = store.add(checkpoint_of(tmp_path, 2), parent=parent.id)
    store.record([fought(parent.id, child.id, 0), fought(child.id, parent.id, 0)])
    close_period(store)
    path = tmp_path / "sent" / "league.json"
    write_league(store, path)
    return store, path


def test_export_and_import_round_trip(tmp_path):
    store, path = exported(tmp_path)
    again = read_league(path, tmp_path / "other")
    assert again.entries() == store.entries() and again.standings() == store.standings()
    assert again.matches() == store.matches() and again.changes() == store.changes()
    assert again.period == store.period == 2 and again.env == store.env and again.rules == store.rules
    for entry in again.entries("candidate"):
        assert again.weights.open(entry.id).policy().num_parameters() > 0
    with pytest.raises(FileError, match="expected a folder without a league, found league"):
        read_league(path, tmp_path / "other")


def put(table, row, field, value):
    def spoil(document):
        document[table][row][field] = value

    return spoil


def twice(table, row):
    return lambda document: document[table].append(dict(document[table][row]))


NOT_A_NAME = r"entries\[5\].name must be lower-case letters"
NOT_A_TEXT = r"changes\[0\].reason must be a text of at most 1000 printable letters"
SPOILED = {
    "NaN rating": (
        put("ratings", 2, "rating", float("nan")),
        r"ratings\[2\].rating must be a number -100000..100000, got nan",
    ),
    "negative deviation": (
        put("ratings", 0, "deviation", -30.0),
        r"ratings\[0\].deviation must be a number 0.001",
    ),
    "no volatility": (put("ratings", 1, "volatility", 0), r"ratings\[1\].volatility must be a number 1e-06..10"),
    "duplicate id": (twice("entries", 5), r"entries\[7\].id must be unique"),
    "duplicate name": (put("entries", 6, "name", "heuristic:easy@3"), r"entries\[6\].weights must be None"),
    "duplicate match": (twice("matches", 0), r"matches\[2\].key must be unique"),
    "unknown kind": (put("entries", 5, "kind", "emperor"), r"entries\[5\].kind must be one of .* got 'emperor'"),
    "a path": (put("entries", 5, "weights", "../../etc/shadow"), r"entries\[5\].weights must be 'weights/"),
    "an absolute path": (put("entries", 5, "weights", "/etc/shadow"), r"entries\[5\].weights must be 'weights/"),
    "a path as id": (put("entries", 5, "id", "../../etc/shadow"), r"entries\[5\].id must be a sha256, got '../../etc"),
    "false tier": (put("entries", 0, "id", "0" * 64), r"entries\[0\].id must be [0-9a-f]{64}, the id of heuristic"),
    "weights that are not there": (put("entries", 5, "id", "0" * 64), r"entries\[5\].weights must be"),
    "unknown entry": (put("matches", 1, "blue", "0" * 64), r"matches\[1\].blue must name a known entry"),
    "unknown period": (put("matches", 1, "period", 9), r"matches\[1\].period must name a known period, got 9"),
    "no winner": (put("matches", 0, "winner", 7), r"matches\[0\].winner must be an integer 0..2, got 7"),
    "true for one": (put("matches", 0, "winner", True), r"matches\[0\].winner must be an integer"),
    "a field more": (put("matches", 0, "cheat", 1), r"matches\[0\].cheat must be absent"),
    "not a row": (lambda d: d["ratings"].append(5), r"ratings\[7\] must be an object, got 5"),
    "no table": (lambda d: d.pop("matches"), "matches must be a list, got None$"),
    "another version": (lambda d: d.update(version=99), "version must be 1, got 99"),
    "another schema": (lambda d: d.update(schema="x"), "schema must be 'echelon-league', got 'x'"),
    "bad battle": (lambda d: d["env"].update(comm_dim="eight"), "env.comm_dim must be a int, got 'eight'"),
    "bad rules": (lambda d: d["rules"].update(tau=-1.0), "LeagueConfig.tau must be 0.001..100, got -1.0"),
    "no rating at all": (put("ratings", 2, "rating", 1e308), r"ratings\[2\].rating must be a number -1"),
    "a number without end": (put("entries", 5, "created", 10**400), "expected integers of 64 bits"),
    "half a letter": (
        put("changes", 0, "reason", "\ud800"),
        NOT_A_TEXT,
    ),
    "a word to the terminal": (
        put("changes", 0, "reason", "\x1b[2J"),
        NOT_A_TEXT,
    ),
    "no name": (put("entries", 5, "name", ""), NOT_A_NAME),
    "a name like a tier's": (
        put("entries", 5, "name", "tier:easy"),
        NOT_A_NAME,
    ),
    "an unknown tier": (put("entries", 5, "name", "heuristic:best"), NOT_A_NAME),
    "its own child": (
        lambda d: d["entries"][5].update(parent=d["entries"][5]["id"]),
        r"entries\[5\].parent must name an",
    ),
    "a circle of parents": (
        lambda d: d["entries"][5].update(parent=d["entries"][6]["id"]),
        r"entries\[5\].parent must name an earlier entry",
    ),
    "another battle's key": (
        put("matches", 0, "seed", 7),
        rf'matches\[0\].key must be \'{{"rules_version": {RULES_VERSION}, .*}}/7/',
    ),
    "a rating before its time": (put("ratings", 0, "period", 2), r"ratings\[0\].period must be a closed period"),
    "a tier that rises": (
        put("entries", 0, "kind", "candidate"),
        r"entries\[0\].kind must be one of \('scripted'",
    ),
    "a network as a tier": (put("entries", 5, "kind", "scripted"), r"entries\[5\].kind must be one of \('candidate', "),
    "no entries": (
        lambda d: [d[table].clear() for table in ("entries", "matches", "ratings", "changes")],
        "entries must contain at least one, got none",
    ),
    "another battle": (
        lambda d: d["env"].update(comm_dim=4),
        r"entries\[5\].weights: trained with another battle config: env",
    ),
    "a rating that no match gives": (
        put("ratings", 5, "rating", 2500.0),
        r"ratings\[5\].rating must be 1500, computed from the matches of period 1, got 2500",
    ),
    "a match left out": (
        lambda d: d["matches"].pop(),
        r"ratings\[\d\].(rating|deviation) must be [0-9.]+, computed from the matches of period 1, got",
    ),
    "another winner": (
        lambda d: d["matches"][0].update(winner=3 - d["matches"][0]["winner"]),
        r"ratings\[\d\].rating must be [0-9.]+, computed from the matches of period 1, got",
    ),
    "ratings left out": (
        lambda d: d["ratings"].clear(),
        "ratings must include all players of period 1, got none of [0-9a-f]{64}",
    ),
    "all closed": (put("periods", 1, "closed", 5.0), r"periods must end with the only open one, got open \[\]"),
}


def test_ratings_of_several_periods_are_recomputed(tmp_path):
    store, path = exported(tmp_path)
    child, parent = (entry.id for entry in store.entries("candidate"))
    store.record([fought(parent, child, 1), fought(parent, child, 2), fought(child, parent, 2)])
    close_period(store)
    write_league(store, path)
    assert read_league(path, tmp_path / "third").standings() == store.standings()
    document = json.loads(path.read_text())
    rows = document["ratings"]
    later = next(row for row in rows if row["period"] == 2 and row["entry"] == parent)
    later["volatility"] *= 1.001
    path.write_text(json.dumps(document))
    with pytest.raises(
        FileError, match=rf"ratings\[{rows.index(later)}\].volatility must be 0.0[0-9]+, computed from the matches"
    ):
        read_league(path, tmp_path / "other")
    assert not (tmp_path / "other" / FILE).exists()


def test_exploitability_outside_its_interval_is_rejected(tmp_path):
    _, path = exported(tmp_path)
    document = json.loads(path.read_text())
    ids = [entry["id"] for entry in document["entries"][5:7]]
    row = {"entry": ids[0], "response": ids[1], "agent_steps": 5, "battles": 8, "low": 0.1, "high": 0.3, "created": 1.0}
    document["exploits"] = [{**row, "bound": 0.9}]
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match=r"exploits\[0\].bound must be 0.1..0.3, the interval of the row, got 0.9"):
        read_league(path, tmp_path / "other")
    document["exploits"] = [{**row, "bound": 0.2}]
    path.write_text(json.dumps(document))
    read_league(path, tmp_path / "other")


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("case", SPOILED)
def test_invalid_file_error_names_row_and_field(tmp_path, case):
    _, path = exported(tmp_path)
    spoil, message = SPOILED[case]
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match=message) as refused:
        read_league(path, tmp_path / "other")
    assert str(refused.value).startswith("league.json: ") and "\n" not in str(refused.value)
    assert not (tmp_path / "other" / FILE).exists()


BYTES = {
    "empty": (b"", "not valid JSON"),
    "truncated": (b'{"schema": "echelon-league"', "not valid JSON"),
    "a key twice": (b'{"schema": 1, "schema": 2}', "duplicate key 'schema'"),
    "nesting bomb": (b"[" * 1_000_000, "not valid JSON"),
    "a list": (b"[]", "expected an object, got list"),
}


@pytest.mark.requirement("R10", "R31")
@pytest.mark.parametrize("case", BYTES)
def test_file_of_another_kind_is_rejected(tmp_path, case):
    data, message = BYTES[case]
    path = tmp_path / "league.json"
    path.write_bytes(data)
    began = time.process_time()
    with pytest.raises(FileError, match=message):
        read_league(path, tmp_path / "other")
    assert time.process_time() - began < 1


@pytest.mark.requirement("R10", "R31")
def test_links_and_huge_files_are_rejected(tmp_path):
    link, vast = tmp_path / "link.json", tmp_path / "vast.json"
    link.symlink_to("/etc/passwd")
    with open(vast, "wb") as file:
        file.truncate(64 << 30)
    for path, message in ((link, "cannot be read"), (vast, "expected at most 268435456 bytes")):
        with pytest.raises(FileError, match=message):
            read_league(path, tmp_path / "other")


@pytest.mark.requirement("R31")
def test_imported_weights_are_hashed(tmp_path):
    store, path = exported(tmp_path)
    weights = path.parent / "weights" / store.entries("candidate")[0].id / "policy.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(FileError, match=r"entries\[5\].weights: policy.safetensors: sha256 mismatch"):
        read_league(path, tmp_path / "other")


def test_recorded_reasons_can_be_imported(tmp_path):
    store, path = exported(tmp_path)
    store.set_kind(store.entries("candidate")[0], "retired", "retired", "too old\n" + "!" * 2000)
    write_league(store, path)
    reason = read_league(path, tmp_path / "other").changes()[-1].reason
    assert reason.startswith("too old?!!!") and len(reason) == 1000


def test_a_league_too_large_to_be_read_is_not_written(tmp_path, monkeypatch):
    store, path = exported(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(trade, "MAX_BYTES", 1000)
    with pytest.raises(FileError, match="a league must have at most 1000 bytes to be imported, got "):
        write_league(store, path)
    assert path.read_bytes() == before
