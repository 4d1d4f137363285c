"""The league's file: no lost or duplicate rows, and validation of untrusted content (R10, R23)."""

import dataclasses
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from leagues import BRIEF, checkpoint_of, fought, fresh

from echelon.agents.tiers import TIERS
from echelon.league.config import LeagueConfig
from echelon.league.database import VERSION, Database, make_database
from echelon.league.store import FILE, Store
from echelon.rules.config import EnvConfig
from echelon.rules.versions import RULES_VERSION
from echelon.runtime import files
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

FORK = multiprocessing.get_context("fork")


def two_of(store: Store) -> tuple[str, str]:
    first, second, *_ = store.entries("scripted")
    return first.id, second.id


def test_new_league_contains_the_tiers(tmp_path):
    store = fresh(tmp_path)
    assert [entry.name for entry in store.entries()] == [f"heuristic:{tier}@{RULES_VERSION}" for tier in TIERS]
    assert store.env == dataclasses.replace(BRIEF, map_seed=0) and store.period == 1
    assert {(s.rating, s.deviation, s.games) for s in store.standings()} == {(1500.0, 350.0, 0)}
    with pytest.raises(FileError, match="cannot be created: File exists"):
        fresh(tmp_path)
    with pytest.raises(FileError, match="expected the file of a league, found none"):
        Store(tmp_path / "nowhere")


@pytest.mark.requirement("R23")
def test_a_match_counts_once_and_the_payoff_is_a_view(tmp_path):
    store = fresh(tmp_path)
    a, b = two_of(store)
    rows = [fought(a, b, 0, 1), fought(b, a, 0, 1), fought(a, b, 1, 0), fought(a, b, 2, 2)]
    assert store.record(rows[:3]) == 3 and store.record(rows) == 1
    assert store.payoff() == {(a, b): (4, 1.5), (b, a): (4, 2.5)}
    standing = {s.id: s for s in store.standings()}
    assert standing[a].games == 4 and standing[b].score == 2.5
    with pytest.raises(FileError, match=r"cannot be read or written: .* constraint failed"):
        store.record([fought(a, "f" * 64, 9)])
    with pytest.raises(FileError, match=r"cannot be read or written: .* constraint failed"):
        store.record([fought(a, b, 10), fought(a, b, 11, winner=3)])
    assert len(store.matches()) == 4, "a batch is written whole or not at all"


def write_many(folder, who: int) -> None:
    store = Store(folder)
    a, b = two_of(store)
    for number in range(200):
        store.record([fought(a, b, 1000 * who + number)])
    os._exit(0)


@pytest.mark.requirement("R23")
def test_eight_processes_lose_nothing(tmp_path):
    store = fresh(tmp_path)
    store.close()
    writers = [FORK.Process(target=write_many, args=(store.folder, who)) for who in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 8
    found = Store(store.folder)
    assert len(found.matches()) == 1600
    assert found.database.execute("PRAGMA integrity_check") == [("ok",)]


def write_and_tell(folder, first: int, tell: int) -> None:
    store = Store(folder)
    a, b = two_of(store)
    for number in range(first, first + 100_000):
        store.record([fought(a, b, 2 * number), fought(b, a, 2 * number)])
        os.write(tell, f"{number}\n".encode())


@pytest.mark.requirement("R23")
@pytest.mark.long
def test_thirty_kills_lose_nothing_that_was_reported(tmp_path):
    store = fresh(tmp_path)
    store.close()
    chance, reported = random.Random(0), []
    for life in range(30):
        ear, tell = os.pipe()
        writer = FORK.Process(target=write_and_tell, args=(store.folder, 1_000_000 * life, tell))
        writer.start()
        os.close(tell)
        first = os.read(ear, 1 << 16)
        time.sleep(chance.uniform(0, 0.03))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        with open(ear, "rb") as told:
            reported += [int(line) for line in (first + told.read()).split(b"\n") if line]
    found = Store(store.folder)
    assert found.database.execute("PRAGMA integrity_check") == [("ok",)]
    seeds = [match.seed for match in found.matches()]
    assert {2 * number for number in reported} <= set(seeds) and len(reported) >= 30
    assert len(seeds) == 2 * len(set(seeds)), "both battles of a batch, or none"


@pytest.mark.requirement("R23")
def test_weights_are_stored_before_their_row(tmp_path):
    store = fresh(tmp_path)
    path = checkpoint_of(tmp_path, 1)
    entry = store.add(path, parent=None)
    assert store.add(path) == entry, "twice is once"
    assert entry.kind == "candidate" and store.find(entry.name) == store.find(entry.id[:8]) == entry
    shutil.rmtree(path)
    assert store.weights.open(entry.id).policy().num_parameters() > 0
    assert sorted(f.name for f in store.weights.path(entry.id).iterdir()) == ["checkpoint.json", "policy.safetensors"]
    assert [(c.change, c.name) for c in store.changes()] == [("added", entry.name)]
    other = dataclasses.replace(BRIEF, sight_range_vox=30.0)
    with pytest.raises(ConfigError, match=r"another battle .* env.sight_range_vox is 60.0 here and 30.0 there"):
        store.add(checkpoint_of(tmp_path, 2, env=other))
    with pytest.raises(ConfigError, match="an entry must be a name"):
        store.find("missing")


@pytest.mark.requirement("R23")
def test_a_row_appears_after_its_weights_are_on_the_disk(tmp_path, monkeypatch):
    """The order of writes is file, folder, name of the folder, then the row."""
    store, order = fresh(tmp_path), []
    fsync, rename, insert = os.fsync, Path.rename, Database.insert
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(Path, "rename", lambda self, to: (order.append("rename"), rename(self, to))[1])
    monkeypatch.setattr(Database, "insert", lambda self, *what: (order.append("row"), insert(self, *what))[1])
    path = checkpoint_of(tmp_path, 1)
    order.clear()
    store.add(path)
    assert order == ["fsync", "fsync", "fsync", "rename", "fsync", "fsync", "row", "row"], (
        "the entry, and that it was added"
    )


def spoil_bytes(weights):
    file = weights / "policy.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def spoil_length(weights):
    file = weights / "policy.safetensors"
    file.write_bytes(file.read_bytes() + b"\x00")


def spoil_claim(weights):
    file = weights / "checkpoint.json"
    file.write_text(file.read_text().replace(weights.name, "0" * 64))


def spoil_by_link(weights):
    weights.rename(weights.with_name("elsewhere"))
    weights.symlink_to(weights.with_name("elsewhere"))


def spoil_file_by_link(weights):
    file = weights / "policy.safetensors"
    file.rename(weights.parent / "far")
    file.symlink_to(weights.parent / "far")


def spoil_by_size(weights):
    with open(weights / "policy.safetensors", "r+b") as file:
        file.truncate(64 << 30)


SPOILED = {
    "weights": (spoil_bytes, "policy.safetensors: sha256 mismatch"),
    "a byte too many": (spoil_length, "policy.safetensors: not a safetensors file: tensors must fill"),
    "claim": (spoil_claim, "sha256 mismatch: expected"),
    "folder is a link": (spoil_by_link, "expected a folder, got a link"),
    "file is a link": (spoil_file_by_link, "policy.safetensors: cannot be read"),
    "sparse 64 GiB": (spoil_by_size, "policy.safetensors: expected at most"),
    "gone": (shutil.rmtree, "expected a checkpoint folder"),
}


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("case", SPOILED)
def test_corrupt_weights_are_rejected(tmp_path, case):
    store = fresh(tmp_path)
    entry = store.add(checkpoint_of(tmp_path, 1))
    spoil, message = SPOILED[case]
    spoil(store.weights.path(entry.id))
    began = time.process_time()
    with pytest.raises(FileError, match=message):
        store.weights.open(entry.id).policy()
    assert time.process_time() - began < 1


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("name", ["../../etc/shadow", "/etc/shadow", "A" * 64, ""])
def test_nothing_outside_the_weights_folder_is_opened(tmp_path, name):
    with pytest.raises(FileError, match="weights must be a sha256, got "):
        fresh(tmp_path).weights.open(name)


@pytest.mark.requirement("R10", "R31")
def test_file_of_another_kind_is_rejected(tmp_path):
    store = fresh(tmp_path)
    path = store.folder / FILE
    store.close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    with pytest.raises(FileError, match=f"version must be at most {VERSION}, got {VERSION + 1}: use a newer Echelon"):
        Store(store.folder)
    path.write_bytes(b"not a database, but as long as one would be" * 100)
    with pytest.raises(FileError, match="not the file of a league"):
        Store(store.folder)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(FileError, match="expected the file of a league, found none"):
        Store(store.folder)


def test_an_empty_file_is_no_league(tmp_path):
    (tmp_path / FILE).touch()
    with pytest.raises(FileError, match="not the file of a league: application_id must be"):
        Store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b""
    make_database(tmp_path / FILE)
    with pytest.raises(FileError, match="expected the env of a league, found none"):
        _ = Store(tmp_path).env


def test_leagues_of_other_battles_are_other_leagues(tmp_path):
    wide = Store.create(tmp_path / "wide", EnvConfig.large(), LeagueConfig(weighting="variance", commanders=2))
    assert wide.env.rules.max_episode_s == 90.0
    assert Store(wide.folder).rules == LeagueConfig(weighting="variance", commanders=2)


def test_retired_entry_may_return(tmp_path):
    store = fresh(tmp_path)
    path = checkpoint_of(tmp_path, 1)
    entry = store.add(path)
    store.set_kind(entry, "retired", "retired", "by hand")
    assert store.add(path, "main").kind == "main" and store.find(entry.name).kind == "main"
    assert [change.change for change in store.changes()] == ["added", "retired", "added"]


def test_weights_of_another_battle_leave_nothing_behind(tmp_path):
    store = fresh(tmp_path)
    other = dataclasses.replace(BRIEF, sight_range_vox=30.0)
    with pytest.raises(ConfigError, match="another battle"):
        store.add(checkpoint_of(tmp_path, 1, env=other))
    assert not store.weights.folder.exists()
    # The same weights, trained in this league's battle.
    shutil.rmtree(tmp_path / "policy_1")
    assert store.add(checkpoint_of(tmp_path, 1)).kind == "candidate"


def test_league_on_a_network_file_system_is_warned_of_once(tmp_path, monkeypatch, caplog):
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path}/shared nfs4 rw 0 0\n")
    monkeypatch.setattr(files, "MOUNTS", table)
    for place in ("shared", "own"):
        store = Store.create(tmp_path / place / "mine", BRIEF)
        Store(store.folder)
    (line,) = caplog.messages
    assert line.startswith(
        f"{tmp_path}/shared/mine: on a network file system (nfs4), where a database may be corrupted"
    )
    assert line.endswith("use a local folder, such as " + str(Path.home() / "mine"))
