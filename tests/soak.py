"""Run trainings, tournaments and recordings for a while with faults: kills, full disks, locks.

python tests/soak.py --minutes 30 [--seed 0] [--folder DIR]

Programs start as a user starts them. A program ends normally, is killed at a random moment (SIGKILL), has a random
limit of its file size (like a full disk), or finds the league's database locked until it reports this. After each
program all is checked: reported results are not lost, no file is half written, errors have one line. At the end a JSON
line: counts of programs by end, waits for the lock, and the peak memory of the first and last programs that ended
normally. The exit status is 1 at the first failed check."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "pipelines")]
from leagues import BRIEF  # noqa: E402
from patience import STUCK_S  # noqa: E402
from runs import TINY  # noqa: E402

from echelon.league.store import Store  # noqa: E402
from echelon.learn.checkpoint.files import newest_checkpoint  # noqa: E402
from echelon.learn.checkpoint.format import open_checkpoint  # noqa: E402
from echelon.learn.metrics import read_table  # noqa: E402
from echelon.replay.file import read  # noqa: E402

FAULTS = ("none", "none", "kill", "kill", "full", "lock")
"""The faults. Each program gets all of them in random order before one repeats."""
FIRST_S = 25.0
"""How long a program is thought to take before one has ended by itself; it is killed within that time."""
LOCK_MET = "locked by another process"
"""What a program says that waits for a lock."""


@dataclass
class Soak:
    """The results until now, which must never decrease."""

    folder: Path
    rng: random.Random
    ended: Counter[str] = field(default_factory=Counter)
    """Number of programs by name, fault and exit status."""
    peaks_mb: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Peak resident memory of the programs that ended normally, keyed by name."""
    took_s: dict[str, float] = field(default_factory=dict)
    """Run time of the last program that ended normally, keyed by name."""
    iterations: int = 0
    battles: int = 0
    locks_met: int = 0
    """Number of programs that reported a locked database."""

    @property
    def output(self) -> Path:
        """Return the output of the current program."""
        return self.folder / "output.log"

    def start(self, name: str, fault: str, *words: str) -> str:
        """Run a program to its end or its fault; return its output."""
        limit = self.rng.choice([1 << 12, 1 << 14, 1 << 17]) if fault == "full" else 0

        def limited() -> None:
            if limit:
                # A write beyond the limit fails; a full disk would return ENOSPC.
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        began = time.monotonic()
        with self.output.open("w") as output:
            # Compiled loops are stored on the disk. A limit prevents it, and numba warns.
            process = subprocess.Popen(words, stdout=output, stderr=output, cwd=ROOT, preexec_fn=limited)
            dies_at_s = self.rng.uniform(0.5, self.took_s.get(name, FIRST_S)) if fault == "kill" else STUCK_S
            (killer := threading.Timer(dies_at_s, process.kill)).start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = code = os.waitstatus_to_exitcode(status)
            killer.cancel()
        said = self.output.read_text(errors="replace")
        self.ended[f"{name} {fault} {code}"] += 1
        self.locks_met += LOCK_MET in said
        if code == 0 and fault in ("none", "lock"):
            self.peaks_mb[name].append(usage.ru_maxrss / 1024)
        if code == 0 and fault == "none":
            self.took_s[name] = time.monotonic() - began
        if "Traceback" in said:
            fail(f"{name} ({fault}) ended with a traceback:\n{said[-3000:]}")
        wanted = {"none": (0,), "kill": (0, -signal.SIGKILL), "full": (0, 1), "lock": (0,)}[fault]
        if code not in wanted:
            fail(f"{name} ({fault}) ended with {code}:\n{said[-3000:]}")
        return said

    def train(self, fault: str) -> None:
        """Resume a run for some iterations; check that all checkpoints and rows are still there."""
        run = self.folder / "run"
        steps = str(160 * (self.iterations + self.rng.randrange(2, 12)))
        # A run killed in its first second has no checkpoint and starts again.
        begun = ("--resume", "latest") if has_checkpoint(run) else ()
        more = ("--total-agent-steps", steps, "--checkpoint-every", "1", "--keep-checkpoints", "3")
        words = (*TINY, *begun, *more, "--run-dir", str(run), "--evaluation.tiers", "trivial")
        self.start("train", fault, sys.executable, "pipelines/train.py", *words)
        if not has_checkpoint(run):
            return
        newest = open_checkpoint(newest_checkpoint(run / "checkpoints"))
        newest.policy(), newest.parts(0)
        if newest.counters.iterations < self.iterations:
            fail(f"a run went back from iteration {self.iterations} to {newest.counters.iterations}")
        self.iterations = newest.counters.iterations
        rows = read_table(run / "metrics.csv") if (run / "metrics.csv").exists() else []
        numbers = [int(float(row["iteration"])) for row in rows]
        # A row is written before its checkpoint, so a killed run may have one more row.
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < self.iterations:
            fail(f"rows of iterations {numbers[-3:]} for a checkpoint of iteration {self.iterations}")

    def tournament(self, fault: str) -> None:
        """Play some battles of a league, in one process or two; check that each recorded battle is there once."""
        league = self.folder / "league"
        arena = (sys.executable, "pipelines/arena.py")
        if not (league / "league.sqlite").exists():
            Store.create(league, BRIEF)
        words = (*arena, "tournament", "--league", str(league), "--seeds", "2", "--batch", "8")
        ended, more_s = threading.Event(), self.rng.uniform(0, 5)
        waits = (league / "league.sqlite", self.output, ended, more_s)
        holder = threading.Thread(target=hold_lock, args=waits, daemon=True)
        if fault == "lock":
            self.output.unlink(missing_ok=True)
            holder.start()
        second = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        self.start("tournament", fault, *words)
        ended.set()
        if fault == "lock":
            holder.join()
        if self.rng.random() < 0.5:
            second.kill()
        second.wait(STUCK_S)
        with sqlite3.connect(league / "league.sqlite") as connection:
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            (battles,) = connection.execute("SELECT count(*) FROM matches").fetchone()
        if state != "ok" or battles < self.battles:
            fail(f"the league's database is {state}, with {battles} battles where {self.battles} were")
        self.battles = battles

    def replay(self, fault: str) -> None:
        """Record two battles and draw them; check that files are complete or missing."""
        path, page = self.folder / "battles.echelon", self.folder / "battles.html"
        arena = (sys.executable, "pipelines/arena.py")
        commanders = ("--blue", "heuristic:normal", "--red", "heuristic:easy", "--battles", "2")
        drawn = ("--env", "small", "--seed", str(self.rng.randrange(1000)), "--replay", str(path))
        path.unlink(missing_ok=True), page.unlink(missing_ok=True)
        self.start("play", fault, *arena, "play", *commanders, *drawn)
        if path.exists():
            read(path)
            self.start("watch", "full" if fault == "full" else "none", *arena, "watch", str(path), "--out", str(page))
            if page.exists() and not page.read_text().rstrip().endswith("</html>"):
                fail(f"half a page of {page.stat().st_size} bytes")
        left = [found.name for found in self.folder.rglob(".*") if fault != "kill" and "draft" in found.name]
        if left:
            fail(f"left behind: {left}")


def has_checkpoint(run: Path) -> bool:
    """Return whether a run has a complete checkpoint; drafts start with a dot."""
    return any((run / "checkpoints").glob("[!.]*"))


def hold_lock(database: Path, output: Path, ended: threading.Event, seconds: float) -> None:
    """Lock a database for writing until a program reports that it waits, and some seconds longer."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=STUCK_S)
    connection.execute("BEGIN IMMEDIATE")
    while not ended.wait(0.2):
        if output.exists() and LOCK_MET in output.read_text(errors="replace"):
            ended.wait(seconds)
            break
    connection.execute("ROLLBACK")
    connection.close()


def fail(why: str) -> None:
    """Exit with a reason."""
    print(f"does not hold: {why}", file=sys.stderr)
    sys.exit(1)


def main() -> None:
    """Run the soak test for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="soak_"))
    folder.mkdir(parents=True, exist_ok=True)
    soak, ends = Soak(folder, random.Random(args.seed)), time.monotonic() + 60 * args.minutes
    to_come: defaultdict[str, list[str]] = defaultdict(list)
    while time.monotonic() < ends:
        act = soak.rng.choice((soak.train, soak.tournament, soak.replay))
        left = to_come[act.__name__] = to_come[act.__name__] or soak.rng.sample(FAULTS, len(FAULTS))
        fault = left.pop()
        act("none" if fault == "lock" and act != soak.tournament else fault)
        print(f"{sum(soak.ended.values())} programs, iteration {soak.iterations}, {soak.battles} battles", flush=True)
    memory = {}
    for name, peaks in soak.peaks_mb.items():
        part = max(1, len(peaks) // 3)
        memory[name] = {"first": statistics.median(peaks[:part]), "last": statistics.median(peaks[-part:])}
        if memory[name]["last"] > 1.2 * memory[name]["first"] + 50:
            fail(f"{name} took {memory[name]['first']:.0f} MB at first and {memory[name]['last']:.0f} MB at last")
    told = {"programs": dict(sorted(soak.ended.items())), "iterations": soak.iterations, "battles": soak.battles}
    told["locks_met"] = soak.locks_met
    print(json.dumps({**told, "peak_mb": memory, "minutes": args.minutes, "seed": args.seed}))


if __name__ == "__main__":
    main()
