"""Full disks, read-only folders, a locked database, interrupts: one error line, no lost data, no partial files."""

import errno
import json
import logging
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from leagues import BRIEF, checkpoint_of, fought, fresh
from patience import STUCK_S
from viewer.reports import empty_report
from viewer.scenes import small_replay

from echelon.arena.config import ArenaConfig
from echelon.league import database, league_arena
from echelon.league.import_export import write_league
from echelon.league.league_arena import LeagueArena, claimed, is_unrecorded, record_file, save_unrecorded
from echelon.league.log import write_event
from echelon.league.matchmaking import round_robin
from echelon.league.store import FILE, Store
from echelon.learn.metrics import CsvTable, read_table
from echelon.pipelines.league_records import Import
from echelon.replay.file import save
from echelon.reports.plots import metrics_figure, payoff_figure, ratings_figure
from echelon.rules.catalog import Material
from echelon.runtime.files import FileError, append_whole, atomic_write, new_folder, write_whole
from echelon.runtime.interrupts import EXIT_CODE, PIPELINES, end_while_importing, handle_as_usual, is_program
from echelon.runtime.profiling import profiled
from echelon.viewer import paper
from echelon.viewer.battle_picture import draw_gif, strip_figure
from echelon.viewer.contact_sheet import Tile, draw_contact_sheet
from echelon.viewer.page import write_page
from echelon.viewer.pages import write_report
from hostile.attempts import CASES, COMMANDS, MADE

pytestmark = pytest.mark.long

CPU = torch.device("cpu")


# Commands of `arena.py`


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, dict]:
    """Return the result of each of `CASES`."""
    script = Path(__file__).with_name("attempts.py")
    command = [sys.executable, str(script), str(tmp_path_factory.mktemp("attempts"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_failing_command_prints_one_line_and_leaves_no_files(told, case):
    now, (command, _, _) = told[case], CASES[case]
    code, before, after = now["code"], now["before"], now["after"]
    lines = now["errors"].splitlines()
    if "closed pipe" in case:
        assert code in (0, 1) and not lines, "the pipe has no reader"
    elif code == 0:
        assert "bytes" in case or "output" in case, "a disk that has room for this, or a command that prints nothing"
        assert not lines
    else:
        assert code == (EXIT_CODE if "interrupted" in case else 1)
        assert len(lines) == 1, lines
        (line,) = lines
        assert line.startswith("interrupted" if "interrupted" in case else "error: ") and len(line) < 500
    assert now["victim"] == "a file of the user's"
    new = [name for name in after["files"] if name not in before["files"]]
    # The case itself replaces this file by a folder.
    replaced = {"league/log.jsonl"} if case == "a folder as log" else set()
    assert set(before["files"]) - set(after["files"]) - replaced == set()
    assert not [name for name in new if "/." in name], "no drafts"
    is_made = MADE.get(command) in new
    assert is_made or code != 0 or command not in MADE
    if command == "import":
        assert (after["new"] != {}) == is_made and (is_made or not [name for name in new if name.startswith("new/")])
    if is_made and command == "import":
        assert after["new"]["matches"] == 0 and len(after["new"]["entries"]) == 6 and after["new"]["weights"] == 1
    ours, theirs = before["league"], after["league"]
    assert theirs["claims"] == 0 and theirs["weights"] == ours["weights"] + (command == "add" and code == 0)
    assert theirs["matches"] >= ours["matches"]
    if code and command in ("add", "retire"):
        assert theirs == ours


def test_every_command_was_tried_on_full_disk_and_read_only_folder(told):
    for command in COMMANDS:
        codes = {case: told[case]["code"] for case, (name, _, _) in CASES.items() if name == command}
        assert codes[f"{command}, a disk of 0 bytes"] == codes[f"{command}, folders read-only"] == 1


@pytest.mark.parametrize(
    ("case", "recorded", "says"),
    [
        ("interrupted before the first batch", 0, "interrupted: 0 battles are recorded; the same command continues"),
        ("interrupted in the second batch", 8, "interrupted: 8 battles are recorded; the same command continues"),
        ("interrupted before it records", 8, "interrupted: 8 battles are recorded; the same command continues"),
        ("interrupted as it has recorded", 12, "interrupted: 12 battles are recorded; the same command continues"),
        ("interrupted between two batches", 8, "interrupted: the same command goes on"),
        ("interrupted as it closes the period", 12, "interrupted: the same command goes on"),
        ("a fifo as log", 12, "expected a regular file"),
        ("a folder as log", 12, "expected a regular file"),
        ("a link as log", 12, "expected a regular file"),
    ],
)
def test_finished_battles_are_recorded(told, case, recorded, says):
    now = told[case]
    assert now["after"]["league"]["matches"] - now["before"]["league"]["matches"] == recorded
    assert says in now["errors"] and now["after"]["league"]["period"] == now["before"]["league"]["period"]


# Writers


def profile(path: Path) -> None:
    with profiled(path):
        torch.ones(3).sum()


def league_of(folder: Path) -> Store:
    store = fresh(folder)
    store.add(checkpoint_of(folder, 1))
    return store


REPLAY, GROUNDS = small_replay(1)
WRITERS = {
    "a page": ("page.html", lambda path: write_page(REPLAY, GROUNDS, path)),
    "a report": ("report.html", lambda path: write_report(empty_report(), path)),
    "a strip": ("strip.png", lambda path: paper.save(strip_figure(REPLAY, 0, GROUNDS[0], [1.0]), path)),
    "a gif": ("battle.gif", lambda path: draw_gif(REPLAY, 0, GROUNDS[0], path, seconds=0.5)),
    "a sheet of maps": (
        "maps.png",
        lambda path: draw_contact_sheet(
            [Tile("a", np.zeros((2, 4, 4), np.uint8))], [material.name.lower() for material in Material], path
        ),
    ),
    "a payoff": ("payoff.png", lambda path: paper.save(payoff_figure(["a", "b"], [[0.5, 1.0], [0.0, 0.5]]), path)),
    "a payoff in vectors": (
        "payoff.svg",
        lambda path: paper.save(payoff_figure(["a", "b"], [[0.5, 1.0], [0.0, 0.5]]), path),
    ),
    "metrics": ("metrics.png", lambda path: paper.save(metrics_figure([{"agent_steps": 1.0, "kl": 0.1}], []), path)),
    "metrics in vectors": (
        "metrics.pdf",
        lambda path: paper.save(metrics_figure([{"agent_steps": 1.0, "kl": 0.1}], []), path),
    ),
    "ratings": ("ratings.pdf", lambda path: paper.save(ratings_figure({"a": [(1, 1500.0, 100.0)]}), path)),
    "sheets of maps": (
        "maps.pdf",
        lambda path: draw_contact_sheet(
            [Tile("a", np.zeros((2, 4, 4), np.uint8))], [material.name.lower() for material in Material], path
        ),
    ),
    "a replay": ("battles.echelon", lambda path: save(REPLAY, path)),
    "a profile": ("trace.json", profile),
    "a table": ("table.csv", lambda path: CsvTable(path, ("iteration",))),
    "a checkpoint": ("policy_7", lambda path: checkpoint_of(path.parent, 7)),
    "a league": ("league", lambda path: fresh(path.parent)),
    "a file": ("file", lambda path: write_whole(path, b"content")),
}


@pytest.mark.parametrize(
    ("case", "way"),
    # SQLite syncs its own files.
    [(case, way) for case in WRITERS for way in ("fsync", "rename", "mkdir") if (case, way) != ("a league", "fsync")],
)
def test_failed_write_leaves_complete_file_or_none(tmp_path, monkeypatch, case, way):
    """The disk is full at fsync, at rename, or at mkdir."""
    name, write = WRITERS[case]
    path = tmp_path / name

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        if way == "fsync":
            full.setattr(os, "fsync", refuse)
        elif way == "rename":
            full.setattr(Path, "rename", refuse)
            full.setattr(os, "link", refuse)
        else:
            full.setattr(Path, "mkdir", refuse)
        with pytest.raises(FileError, match=r"cannot be (written|made).*No space left on device") as error:
            write(path)
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == []
    write(path)
    assert path.exists() and [found for found in tmp_path.iterdir() if found != path] == []


def test_failed_write_keeps_previous_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "new", tmp_path / ".draft") as folder:
        (folder / "half").touch()
        raise KeyboardInterrupt
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def append_where_files_are_short(path: Path) -> None:
    """Append to a file in a process that limits files to 20 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
    with pytest.raises(FileError, match=f"{path}: cannot be written: "):
        append_whole(path, b"a line that is far too long\n")
    append_whole(path, b"second\n")


def test_append_is_atomic(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"first\n")
    writer = multiprocessing.get_context("fork").Process(target=append_where_files_are_short, args=(path,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0 and path.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_append_requires_regular_file(tmp_path, kind):
    """Writing to a fifo would block forever."""
    path, victim = tmp_path / "log.jsonl", tmp_path / "victim"
    victim.touch()
    {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(victim)}[kind](path)
    with pytest.raises(FileError, match="expected a regular file"):
        append_whole(path, b"line")
    assert victim.read_bytes() == b""


def test_metrics_row_write_is_atomic(tmp_path, monkeypatch):
    table = CsvTable(tmp_path / "metrics.csv", ("iteration", "kl"))
    table.write({"iteration": 1, "kl": 0.5})
    with monkeypatch.context() as full:
        full.setattr(
            os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device"))
        )
        with pytest.raises(FileError, match=r"metrics.csv: cannot be written: No space left on device"):
            table.write({"iteration": 2, "kl": 0.5})
    table.write({"iteration": 2, "kl": 0.25})
    assert [row["iteration"] for row in read_table(tmp_path / "metrics.csv")] == ["1", "2"]


def test_failed_weight_write_leaves_no_files(tmp_path, monkeypatch):
    store, path = fresh(tmp_path), checkpoint_of(tmp_path, 1)
    with monkeypatch.context() as full:
        full.setattr(
            os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device"))
        )
        with pytest.raises(FileError, match="No space left on device"):
            store.add(path)
        with pytest.raises(FileError, match="No space left on device"):
            write_league(store, tmp_path / "out" / "league.json")
    assert list(store.weights.folder.rglob("*")) == [] and list((tmp_path / "out").iterdir()) == []
    assert store.add(path).kind == "candidate"


# A full disk and a locked database, while battles are fought


def arena_of(store: Store) -> LeagueArena:
    return LeagueArena(store, ArenaConfig(CPU, batch=4))


@pytest.fixture
def impatient(monkeypatch):
    """Shorten the wait for a lock; the lock is held until the test ends."""
    for name, value in (("ATTEMPT_S", 0.01), ("PAUSE_S", 0.0), ("TELL_S", 0.0), ("PATIENCE_S", 0.05)):
        monkeypatch.setattr(database, name, value)


def lock(folder: Path) -> sqlite3.Connection:
    """Open a write transaction on a league, as another program."""
    other = sqlite3.connect(folder / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def kept_in(message: str) -> Path:
    """Return the file named in a message."""
    return Path(message.partition("`arena.py import ")[2].partition(" --league")[0])


def test_batch_is_saved_and_importable_if_database_is_locked(tmp_path, impatient, monkeypatch, capsys):
    store = fresh(tmp_path)
    battles = round_robin([entry.id for entry in store.entries()], [1])[:4]
    play, others = LeagueArena._play_batch, []

    def play_and_lock(*arguments):
        found = play(*arguments)
        others.append(lock(store.folder))
        return found

    monkeypatch.setattr(LeagueArena, "_play_batch", play_and_lock)
    with pytest.raises(
        FileError, match=r"locked by another process for 0 s: wait until it ends; 4 played battles"
    ) as error:
        list(arena_of(store).play(battles))
    others[0].close()
    path = kept_in(str(error.value))
    assert path.parent == store.folder and is_unrecorded(path) and Store(store.folder).matches() == []
    for new in (4, 0):
        Import(path, store.folder).run()
        assert f"{new} new of 4 matches" in capsys.readouterr().out
    assert store.played(battles) == set(battles) and claimed(Store(store.folder)) == set()


def test_database_lock_is_awaited_and_logged(tmp_path, impatient, monkeypatch, caplog):
    store = fresh(tmp_path)
    one, two, *_ = (entry.id for entry in store.entries())
    other, pauses = lock(store.folder), []
    monkeypatch.setattr(database, "PATIENCE_S", 1e9)
    store.database.patience_s = 1e9

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.execute("ROLLBACK")

    monkeypatch.setattr(database.time, "sleep", pause)
    with caplog.at_level(logging.WARNING):
        assert store.record([fought(one, two, 1)]) == 1
    assert len(pauses) == 3 and len(caplog.messages) == 3
    assert caplog.messages[0].startswith(f"{store.path}: locked by another process, retrying for ")


def test_batch_is_saved_and_importable_if_disk_is_full(tmp_path):
    store = fresh(tmp_path)
    battles = round_robin([entry.id for entry in store.entries()], [1])[:4]
    store.execute("PRAGMA max_page_count = 1")
    with pytest.raises(FileError, match="database or disk is full; 4 played battles are saved") as error:
        for number in range(50):
            list(arena_of(store).play([battle._replace(seed=battle.seed + number) for battle in battles]))
    path = kept_in(str(error.value))
    again = Store(store.folder)
    before = len(again.matches())
    assert record_file(path, again) == (4, 4) and len(again.matches()) == before + 4


def test_batch_is_saved_in_temporary_folder_if_league_folder_is_full(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(league_arena.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    matches = [fought("a" * 64, "b" * 64, 1)]
    said = save_unrecorded(Path("/dev/null/league"), BRIEF, matches)
    assert kept_in(said).parent == tmp_path / "tmp" and kept_in(said).exists()
    monkeypatch.setattr(league_arena.tempfile, "gettempdir", lambda: "/dev/null")
    assert "1 played battles are lost" in save_unrecorded(Path("/dev/null/league"), BRIEF, matches)


def kept(store: Store, **change: object) -> dict:
    """Return the changed document of a file of two unrecorded matches."""
    one, two, *_ = (entry.id for entry in store.entries())
    kept_in(save_unrecorded(store.folder, store.env, [fought(one, two, 1), fought(two, one, 1)]))
    (path,) = store.folder.glob("unrecorded_*.json")
    document = json.loads(path.read_text())
    path.unlink()
    document["matches"][1].update(change)
    return document


SPOILED = {
    "another schema": (lambda d: d.update(schema="x"), "schema must be 'echelon-matches'"),
    "another version": (lambda d: d.update(version=2), "version must be 1"),
    "no matches": (lambda d: d.update(matches=None), "matches must be a list"),
    "no row": (lambda d: d["matches"].append(7), r"matches\[2\] must be an object, got 7"),
    "a column more": (lambda d: d["matches"][1].update(x=1), r"matches\[1\].x must be absent"),
    "no seed": (lambda d: d["matches"][1].update(seed="many"), r"matches\[1\].seed must be an integer"),
    "no winner": (lambda d: d["matches"][1].update(winner=3), r"matches\[1\].winner must be an integer"),
    "a stranger": (
        lambda d: d["matches"][1].update(red="c" * 64),
        r"matches\[1\] must be between entries of the league",
    ),
    "against itself": (
        lambda d: d["matches"][1].update(red=d["matches"][1]["blue"]),
        "must be between two different entries",
    ),
    "other rules": (
        lambda d: d["matches"][1].update(recipe='{"rules_version": 3, "map_maker": 1}'),
        "a match under the current rules and map generator",
    ),
    "no recipe": (lambda d: d["matches"][1].update(recipe="x"), "recipe must be a JSON object"),
    "another battle": (lambda d: d["env"].update(sight_range_vox=30.0), "env must be the battle of the league"),
    "no battle": (lambda d: d.update(env=[]), "env must be an object"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_invalid_match_file_is_refused_entirely(tmp_path, case):
    store = fresh(tmp_path)
    spoil, message = SPOILED[case]
    document = kept(store)
    spoil(document)
    path = tmp_path / "unrecorded.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FileError, match=message) as error:
        record_file(path, store)
    assert "\n" not in str(error.value) and store.matches() == []


# Interrupts while modules are imported


def test_interrupt_during_import_is_one_line(tmp_path):
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "echelon.env.env":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.orig_argv = [sys.executable, sys.argv[1]]
from echelon import EchelonEnv
"""

    def run(path):
        words = [sys.executable, "-c", program, str(path)]
        return subprocess.run(words, capture_output=True, text=True, timeout=STUCK_S)

    done = run(PIPELINES / "arena.py")
    assert done.returncode == EXIT_CODE and done.stderr == "interrupted\n"
    done = run(tmp_path / "train.py")
    assert done.stderr.endswith("KeyboardInterrupt\n") and "Traceback" in done.stderr, (
        "a script of one's own is one's own"
    )


@pytest.fixture
def usual():
    """Restore Python's interrupt handler, which a library may have replaced."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_interrupt_after_import_is_unchanged(monkeypatch, usual):
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-u", str(PIPELINES / "arena.py")])
    elsewhere = threading.Thread(target=end_while_importing)
    elsewhere.start()
    elsewhere.join()
    assert signal.getsignal(signal.SIGINT) is usual, "only the first thread may"
    end_while_importing()
    assert signal.getsignal(signal.SIGINT) is not usual
    handle_as_usual()
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        (["-m", "echelon", "watch"], True),
        (["-u", "-m", "echelon.pipelines.train"], True),
        (["/usr/bin/echelon-train"], True),
        (["train.py"], False),
        (["-m", "mine"], False),
        (["mine.py", "-m", "echelon"], False),
        ([], False),
    ],
)
def test_user_program_keeps_its_interrupt_handler(words, is_ours):
    """Also for a user program named `train.py`, and for a package run by `-m` that imports Echelon."""
    assert is_program(["python", *words]) == is_ours


def test_unwritable_event_log_is_reported(tmp_path):
    with closing(fresh(tmp_path)) as store:
        os.mkfifo(store.folder / "log.jsonl")
        with pytest.raises(FileError, match=r"log.jsonl: expected a regular file"):
            write_event(store, "fought")
