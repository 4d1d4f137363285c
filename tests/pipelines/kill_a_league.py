"""Kill every league command repeatedly at random moments; started by `test_league`.

All attempts are forks, so imports run once. Prints one JSON line: number of killed attempts per command.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from leagues import BRIEF, checkpoint_of

from echelon.league.config import LeagueConfig
from echelon.league.import_export import read_league
from echelon.league.store import Store
from echelon.pipelines import arena
from echelon.runtime.terminal import run

GO_ON = ("tournament", "evolve")
"""Commands that resume after a kill; the others start anew."""
EVOLVE = (
    *(
        "--turns",
        "1",
        "--iterations",
        "1",
        "--seeds",
        "1",
        "--train.num-envs",
        "8",
        "--train.past-blocks",
        "2",
        *("--train.backend", "eager"),
    ),
    *("--train.ppo.rollout-decisions", "8", "--train.ppo.chunk-decisions", "4"),
)


def attempt(log: Path, *words: str) -> int:
    """Start a process that runs a command; return its id."""
    process = os.fork()
    if process == 0:
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 1)
        os.dup2(1, 2)
        sys.argv = ["pipelines/arena.py", *words]
        code = 0
        try:
            run(arena.main)
        except SystemExit as end:
            print(words[0], end.code)
            code = 1
        sys.stdout.flush()
        os._exit(code)
    return process


def status_of(process: int) -> int:
    """Wait for a process; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def check(folder: Path) -> Store:
    """Check that a league opens, is valid, and contains every reported battle."""
    store = Store(folder)
    assert store.database.execute("PRAGMA integrity_check") == [("ok",)]
    assert not store.database.execute("PRAGMA foreign_key_check")
    for entry in store.entries():
        assert entry.is_scripted or store.weights.open(entry.id).policy().num_parameters() > 0
    log = folder / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    reported = sum(line["matches"] for line in lines if line["event"] == "fought" and line["kept"])
    assert len(store.matches()) >= reported, (len(store.matches()), reported)
    return store


def is_made(folder: Path) -> bool:
    """Return whether a league exists and, if so, check that it is complete."""
    if not (folder / "league.sqlite").exists():
        return False
    assert len(check(folder).entries()) >= 5
    return True


def is_sent(file: Path, matches: int) -> bool:
    """Return whether the league's file exists and, if so, check that it is complete."""
    if not file.exists():
        return False
    again = file.with_name("again")
    assert len(read_league(file, again).matches()) == matches
    shutil.rmtree(again)
    return True


def main(home: Path, kills: int) -> None:
    torch.set_num_threads(1)
    made, league, log, chance = home / "made", home / "league", home / "log.txt", random.Random(0)
    fresh, copy, out, sent = home / "fresh", home / "copy", home / "out", home / "sent" / "league.json"
    with_new = [checkpoint_of(home, seed) for seed in (1, 2, 3)]
    store = Store.create(made, BRIEF, LeagueConfig(exploiter_wins=0.0))
    name, _ = (store.add(path).name for path in with_new[:2])
    store.close()
    assert status_of(attempt(log, "tournament", "--league", str(made), "--seeds", "1", "--json")) == 0
    assert status_of(attempt(log, "export", "--league", str(made), "--out", str(sent))) == 0
    again = home / "again"
    shutil.copytree(made, again)
    assert status_of(attempt(log, "tournament", "--league", str(again), "--seeds", "1", "--batch", "8")) == 0
    # New entries first play only similar ones, so the second tournament is shorter.
    fought, after_both, new = len(check(made).matches()), len(check(again).matches()), str(with_new[2])
    assert fought < after_both < 2 * fought, (fought, after_both)

    def holds(wanted: Callable[[Store], bool]) -> Callable[[], bool]:
        return lambda: wanted(check(league))

    there = ("--league", str(league))
    cases: dict[str, tuple[tuple[str, ...], Callable[[], bool]]] = {
        "init": (("--league", str(fresh)), lambda: is_made(fresh)),
        "import": ((str(sent), "--league", str(copy)), lambda: is_made(copy)),
        "export": ((*there, "--out", str(out / "league.json")), lambda: is_sent(out / "league.json", fought)),
        "add": ((*there, new), holds(lambda now: len(now.entries()) == 8)),
        "retire": ((*there, name), holds(lambda now: len(now.active()) == 6)),
        "list": (there, holds(lambda _: True)),
        "standings": (there, holds(lambda _: True)),
        "payoff": (there, holds(lambda _: True)),
        "history": ((*there, name), holds(lambda _: True)),
        "play": ((*there, "--blue", name, "--red", "heuristic:easy", "--battles", "2"), holds(lambda _: True)),
        "evaluate": ((*there, "--seeds", "1", new), holds(lambda now: len(now.matches()) == fought)),
        "tournament": (
            (*there, "--seeds", "1", "--batch", "8"),
            holds(lambda now: now.period == 3 and len(now.matches()) == after_both),
        ),
        "evolve": ((*there, *EVOLVE), holds(lambda now: len(now.entries("main", "exploiter")) >= 3)),
    }
    told = {}
    for command, (words, is_done) in cases.items():

        def begin_anew() -> None:
            for folder in (league, fresh, copy, out):
                shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, league)

        def begin(command: str = command, words: tuple[str, ...] = words) -> int:
            return attempt(log, command, *words)

        begin_anew()
        began = time.monotonic()
        assert status_of(begin()) == 0, command
        takes_s = time.monotonic() - began
        assert is_done(), command
        begin_anew()
        killed, goes_on, longest_s = 0, command in GO_ON, takes_s / 3 if command in GO_ON else takes_s
        while killed < kills:
            if not goes_on or is_done():
                begin_anew()
            process = begin()
            # Kill a resumable command several times on its way.
            time.sleep(chance.uniform(0, longest_s))
            os.kill(process, signal.SIGKILL)
            was_killed = status_of(process) == -signal.SIGKILL
            killed += was_killed
            # Otherwise a command that has become faster would hardly ever be killed.
            longest_s *= 1.0 if was_killed else 0.5
        if not goes_on:
            begin_anew()
        if not (goes_on and is_done()):
            assert status_of(begin()) == 0, command
        assert is_done(), command
        told[command] = killed
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
