"""Read-only leagues, replays, checkpoints and runs can be read, and no files are created next to them."""

import ctypes
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest
from leagues import checkpoint_of, fought, fresh
from releases import REPLAY

from echelon.league.import_export import write_league
from echelon.league.store import FILE, Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.pipelines import arena
from echelon.runtime.terminal import run

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """Return a folder to read and a writable working folder; `closed` makes the first read-only."""
    things, work = tmp_path / "things", tmp_path / "work"
    things.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    yield things
    for path in (things, *things.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def closed(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def without_privileges(work) -> str:
    """Return the result or the error of work in a process without root privileges."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        try:
            assert ctypes.CDLL(None).capset(header, data) == 0
            said = str(work())
        except SystemExit as stop:
            said = str(stop.code)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(mouth, said.encode())
        os._exit(0)
    os.close(mouth)
    with open(ear) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def command(*words: object) -> str:
    """Run a command of `arena.py` without privileges; return its error, or an empty string."""

    def work() -> str:
        sys.argv = ["pipelines/arena.py", *map(str, words)]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        run(arena.main)
        return ""

    return without_privileges(work)


def league_in(folder: Path) -> Path:
    """Return a league with a match, a policy and a closed period."""
    store = fresh(folder)
    store.add(checkpoint_of(folder, 1))
    first, second = store.active()[:2]
    store.record([fought(first.id, second.id, 7)])
    store.close_period({first.id: (1600.0, 100.0, 0.06)})
    store.close()
    return folder / "league"


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_read_commands_accept_read_only_league(read_only):
    league = league_in(read_only)
    (entry, *_) = (store := Store(league)).entries()
    store.close()
    closed(read_only)
    before = names_in(read_only)
    for words in ("standings", "list", "payoff", "ratings", ("history", entry.name), ("export", "--out", "all.json")):
        assert command(*([words] if isinstance(words, str) else words), "--league", league) == "", words
    assert names_in(read_only) == before
    # Pictures that are usually written next to their source are written to the working folder.
    assert names_in(Path.cwd()) >= ["all.json", "payoff.png", "ratings.png"]


def test_write_command_on_read_only_league_is_refused(read_only):
    league = league_in(read_only)
    checkpoint_of(read_only, 2)
    closed(read_only)
    commands = (
        ("retire", "heuristic:easy@3"),
        ("add", read_only / "policy_2"),
        ("tournament", "--seeds", "1", "--device", "cpu"),
        ("evaluate", read_only / "policy_2", "--seeds", "1", "--device", "cpu"),
    )
    for words in commands:
        said = command(*words, "--league", league)
        assert said.startswith(f"error: {league}") and "cannot be" in said and "\n" not in said, said


def test_read_only_league_includes_leftover_wal(read_only):
    league = league_in(read_only)
    store = Store(league)
    store.execute("PRAGMA wal_autocheckpoint = 0")
    store.record([fought(store.active()[0].id, store.active()[2].id, 8)])
    shutil.copytree(league, read_only / "copy")
    shutil.copytree(league, read_only / "without index")
    (read_only / "without index" / f"{FILE}-shm").unlink()
    store.close()
    closed(read_only)
    copy = read_only / "copy"
    assert (copy / f"{FILE}-wal").stat().st_size > 0
    assert without_privileges(lambda: len(Store(copy).matches())) == "2"
    said = without_privileges(lambda: Store(read_only / "without index"))
    assert said.startswith("FileError: ") and "unable to open database file" in said and "\n" not in said
    assert said.endswith(f"{FILE}-shm, which is missing: copy the league to a folder that can be written to")


def test_reader_does_not_block_writer(read_only):
    """With a writable folder and a read-only file, SQLite could leave files that another user cannot open."""
    league = league_in(read_only)
    (league / FILE).chmod(0o444)
    before = names_in(league)
    assert without_privileges(lambda: len(Store(league).matches())) == "1"
    assert names_in(league) == before


def test_export_of_read_only_league_is_equal(read_only):
    league = league_in(read_only)
    with closing(Store(league)) as store:
        write_league(store, Path("ours.json"))
    closed(read_only)
    assert command("export", "--league", league, "--out", "theirs.json") == ""
    assert Path("ours.json").read_bytes() == Path("theirs.json").read_bytes()


def test_page_of_read_only_replay_is_written_to_working_folder(read_only):
    shutil.copy(REPLAY, read_only)
    closed(read_only)
    assert command("watch", read_only / "battles.echelon") == ""
    assert names_in(Path.cwd()) == ["battles.html"] and names_in(read_only) == ["battles.echelon"]


def test_read_only_checkpoint_can_join_league(read_only):
    path = checkpoint_of(read_only, 3)
    fresh(Path.cwd()).close()
    closed(read_only)
    assert without_privileges(lambda: open_checkpoint(path).policy().num_parameters() > 0) == "True"
    assert command("add", path, "--league", "league") == ""
    with closing(Store("league")) as store:
        assert [entry.kind for entry in store.active()].count("candidate") == 1
