"""Run commands in failing environments; `test_environment` starts this as a separate process.

Each attempt is a fork of one process without threads, so imports run once. Prints one JSON line: by case, the exit
code, the output, the changed files, and the content of the league.
"""

import ctypes
import json
import math
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

# Matplotlib caches the machine's fonts; it would warn if the disk is full when it creates the cache.
import matplotlib.font_manager  # noqa: F401
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from leagues import BRIEF, checkpoint_of
from patience import STUCK_S

from echelon.arena.config import ArenaConfig
from echelon.league import store as store_module
from echelon.league.import_export import write_league
from echelon.league.league_arena import Claims, LeagueArena
from echelon.league.matchmaking import round_robin
from echelon.league.store import Store, WeightStore
from echelon.pipelines import arena
from echelon.runtime import terminal as progress_bar
from echelon.runtime.terminal import run

Change = Callable[[Path], object]
COMMANDS: dict[str, tuple[str, ...]] = {
    "init": ("init", "--league", "{home}/new"),
    "add": ("add", "{home}/policy_2", "--league", "{home}/league"),
    "retire": ("retire", "heuristic:easy", "--league", "{home}/league"),
    "tournament": ("tournament", "--league", "{home}/league", "--seeds", "1", "--device", "cpu", "--json"),
    "export": ("export", "--league", "{home}/league", "--out", "{home}/out/league.json"),
    "import": ("import", "{home}/sent/league.json", "--league", "{home}/new"),
    "payoff": ("payoff", "--league", "{home}/league", "--out", "{home}/out/payoff.png"),
    "play": (
        *("play", "--blue", "heuristic:easy", "--red", "heuristic:hard", "--battles", "2", "--device", "cpu"),
        *("--replay", "{home}/out/battles.echelon"),
    ),
    "watch": ("watch", "{home}/battles.echelon", "--out", "{home}/out/page.html"),
    "export-replay": ("export-replay", "{home}/battles.echelon", "--to", "csv", "--out", "{home}/out/battle.csv"),
    "import-map": ("import-map", "{home}/hills.npy", "--out", "{home}/out/hills.json"),
    "maps": ("maps", "--env", "small", "--maps", "1", "--out", "{home}/out/maps.png"),
    "dataset": (
        *("dataset", "--commanders", "heuristic:easy", "--battles", "2", "--device", "cpu", "--quiet"),
        *("--out", "{home}/out/battles.safetensors"),
    ),
}
MADE = {
    "init": "new/league.sqlite",
    "import": "new/league.sqlite",
    "export": "out/league.json",
    "payoff": "out/payoff.png",
    "play": "out/battles.echelon",
    "watch": "out/page.html",
    "export-replay": "out/battle.csv",
    "import-map": "out/hills.json",
    "maps": "out/maps.png",
    "dataset": "out/battles.safetensors",
}
"""File that each command creates."""


def full(limit: int) -> Change:
    """Limit the size of each file to `limit` bytes, as on a full disk."""

    def change(home: Path) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return change


def read_only(home: Path) -> None:
    """Make folders read-only; root drops its privileges."""
    for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, data) == 0


def output_full(home: Path) -> None:
    """Send output to a full disk."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def output_closed(home: Path) -> None:
    """Close the reading end of the output."""
    ear, mouth = os.pipe()
    os.close(ear)
    os.dup2(mouth, 1)


def output_missing(home: Path) -> None:
    """Close the output, as `>&-` in a shell."""
    os.close(1)
    sys.stdout = None


def interrupted(owner: object, name: str, after: bool, times: int = 1) -> Change:
    """Raise an interrupt before or after the given call of a function."""

    def change(home: Path) -> None:
        function, left = getattr(owner, name), [times]

        def called(*arguments, **named):
            left[0] -= 1
            if left[0] == 0 and not after:
                os.kill(os.getpid(), signal.SIGINT)
            found = function(*arguments, **named)
            if left[0] == 0 and after:
                os.kill(os.getpid(), signal.SIGINT)
            return found

        setattr(owner, name, called)

    return change


def log_is(kind: str) -> Change:
    """Replace the log of a league by something other than a regular file."""

    def change(home: Path) -> None:
        log = home / "league" / "log.jsonl"
        log.unlink(missing_ok=True)
        {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(home / "victim")}[kind](log)

    return change


SMALL = ("--batch", "8")
OUTPUTS = {"full disk": output_full, "closed pipe": output_closed, "stream that is missing": output_missing}
CASES: dict[str, tuple[str, Change, tuple[str, ...]]] = {
    **{f"{name}, a disk of 0 bytes": (name, full(0), ()) for name in COMMANDS},
    **{f"{name}, a disk of 34000 bytes": (name, full(34000), ()) for name in (*[*COMMANDS][:7], "dataset")},
    **{f"{name}, folders read-only": (name, read_only, ()) for name in COMMANDS},
    **{
        f"{name}, output to a {what}": (name, change, ())
        for name in ("retire", "export", "payoff")
        for what, change in OUTPUTS.items()
    },
    "interrupted before the first batch": ("tournament", interrupted(LeagueArena, "_play_batch", False), SMALL),
    "interrupted between two batches": ("tournament", interrupted(Claims, "claim", False, 2), SMALL),
    "interrupted in the second batch": ("tournament", interrupted(LeagueArena, "_play_batch", False, 2), SMALL),
    "interrupted before it records": ("tournament", interrupted(Store, "record", False), SMALL),
    "interrupted as it has recorded": ("tournament", interrupted(Store, "record", True, 2), SMALL),
    "interrupted as it closes the period": ("tournament", interrupted(Store, "close_period", True), SMALL),
    "import interrupted before the weights": ("import", interrupted(WeightStore, "add", False), ()),
    "import interrupted after the weights": ("import", interrupted(WeightStore, "add", True), ()),
    "import interrupted among the rows": ("import", interrupted(Store, "set_setting", True, 2), ()),
    "import interrupted before it appears": ("import", interrupted(store_module.os, "link", False), ()),
    "import interrupted as it has appeared": ("import", interrupted(store_module.os, "link", True), ()),
    **{f"a {kind} as log": ("tournament", log_is(kind), ()) for kind in ("fifo", "folder", "link")},
}
"""Command, change of its environment, and further arguments."""


def attempt(change: Change, home: Path, words: tuple[str, ...]) -> tuple[int, str, str]:
    """Run a command in a fork; return exit code, output and errors."""
    pipes = [os.pipe(), os.pipe()]
    process = os.fork()
    if process == 0:
        for number, (ear, mouth) in enumerate(pipes, 1):
            os.dup2(mouth, number)
            os.close(ear)
        code = 0
        try:
            signal.alarm(STUCK_S)
            change(home)
            sys.argv = ["pipelines/arena.py", *(word.replace("{home}", str(home)) for word in words)]
            run(arena.main)
        except SystemExit as stop:
            # As at the exit of a Python program.
            if isinstance(stop.code, str):
                os.write(2, f"{stop.code}\n".encode())
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException as error:
            os.write(2, f"Traceback: {error!r}\n".encode())
            code = 99
        os._exit(code)
    said = []
    for _, mouth in pipes:
        os.close(mouth)
    for ear, _ in pipes:
        with open(ear, "rb") as file:
            said.append(file.read().decode())
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said[0], said[1]


def held_by(folder: Path) -> dict[str, object]:
    """Return the content of a league."""
    if not (folder / "league.sqlite").exists():
        return {}
    store = Store(folder)
    claims = store.execute("SELECT * FROM claims")
    fighting = folder / "fighting"
    found = {
        "entries": [(entry.name, entry.kind) for entry in store.entries()],
        "matches": len(store.matches()),
        "period": store.period,
        "changes": len(store.changes()),
        "claims": len(claims) + (len(list(fighting.iterdir())) if fighting.exists() else 0),
        "weights": sum(
            1 for entry in store.entries() if not entry.is_scripted and store.weights.open(entry.id).policy()
        ),
    }
    store.close()
    return found


def seen(home: Path) -> dict[str, object]:
    """Return the files of a folder without database files, and the content of its leagues."""
    leagues = {name: held_by(home / name) for name in ("league", "new")}
    files = sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())
    return {"files": files, **leagues}


def main(home: Path) -> None:
    torch.set_num_threads(1)
    # Progress lines depend on time.
    progress_bar.FIRST_S = math.inf
    made = home / "made"
    store = Store.create(made / "league", BRIEF)
    store.add(checkpoint_of(made, 1))
    checkpoint_of(made, 2)
    for name in ("heuristic:novice", "heuristic:normal", "heuristic:expert"):
        if name in [entry.name.partition("@")[0] for entry in store.entries()]:
            store.set_kind(store.find(name), "retired", "retired", "fewer battles")
    write_league(store, made / "sent" / "league.json")
    env = LeagueArena(store, ArenaConfig(torch.device("cpu")))
    list(env.play(round_robin([entry.id for entry in store.active()], [77])))
    store.close()
    play = [word.replace("out/", "") for word in COMMANDS["play"]]
    assert attempt(lambda home: None, made, tuple(play))[0] == 0
    (made / "out").mkdir()
    y, x = np.indices((48, 48))
    np.save(made / "hills.npy", np.hypot(x - 24, y - 24))
    told = {}
    for name, (command, change, more) in CASES.items():
        place = home / "attempt"
        shutil.copytree(made, place)
        (place / "victim").write_text("a file of the user's")
        before = seen(place)
        code, output, errors = attempt(change, place, (*COMMANDS[command], *more))
        for path in (place, *place.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        told[name] = {"code": code, "output": output, "errors": errors, "before": before, "after": seen(place)}
        told[name]["victim"] = (place / "victim").read_text()
        shutil.rmtree(place)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
