"""Break one rule at a time in a copy of the tree, and report the mutants that no test detects. Not run by pytest.

    python tests/mutation.py --check                    # whether each mutant fits the code
    python tests/mutation.py --log mutation.jsonl       # all mutants; the same command resumes
    python tests/mutation.py --log mutation.jsonl --minutes 8   # starts no mutant after 8 minutes
    python tests/mutation.py --only 12 --show           # one mutant, with the output of the tests
    python tests/mutation.py --lists learner simulation --sample 60 --seed 1 --quick   # what `pytest -m quick` detects

`mutants/*.txt` list the rules, each with the tests that should detect it:

    # the rule that no longer holds
    tests learn/ppo/test_advantage.py
    in learn/ppo/advantage.py
    - text that occurs once in the file under echelon/
    + replacement

A rule in several places has several `in`. Rules of the simulation are tested with the dense form, with numba hidden:
other tests compare the loops with it, and each mutant would compile them again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torchrl.collectors
import torchrl.envs
import torchrl.objectives.value  # noqa: F401

ROOT = Path(__file__).parents[1]
LISTS = ("learner", "league", "simulation")
BROKEN = 99
RESULTS = {0: "survived", int(pytest.ExitCode.NO_TESTS_COLLECTED): "no tests", BROKEN: "broken"}
"""Results by exit status; any other status means that a test failed."""
DENSE = ("sim/", "env/", "world/")
"""Folders whose rules are tested with the dense form."""


class Mutant(NamedTuple):
    """One broken rule."""

    rule: str
    changes: list[tuple[str, str, str]]
    """File under `echelon/`, a text that occurs once in it, and its replacement."""
    tests: list[str]
    """Files or folders under `tests/`."""

    @property
    def is_dense(self) -> bool:
        """Return whether it is tested with the dense form."""
        return all(file.startswith(DENSE) for file, _, _ in self.changes)


def read_mutants(path: Path) -> list[Mutant]:
    """Return the mutants of one list."""
    found = []
    for block in path.read_text().strip().split("\n\n"):
        title, tests, *lines = block.splitlines()
        changes: list[tuple[str, list[str], list[str]]] = []
        for line in lines:
            if line.startswith("in "):
                changes.append((line[3:], [], []))
            else:
                changes[-1]["-+".index(line[0]) + 1].append(line[2:])
        texts = [(file, "\n".join(old), "\n".join(new)) for file, old, new in changes]
        found.append(Mutant(title.removeprefix("# "), texts, tests.removeprefix("tests ").split()))
    return found


def all_mutants() -> list[tuple[str, Mutant]]:
    """Return the mutants of all lists, with the names of their lists. Mutants are numbered from 1."""
    folder = Path(__file__).parent / "mutants"
    return [(name, mutant) for name in LISTS for mutant in read_mutants(folder / f"{name}.txt")]


def problems(mutant: Mutant) -> list[str]:
    """Return the reasons why a mutant does not fit the tree."""
    missing = [f"no tests/{test}" for test in mutant.tests if not (ROOT / "tests" / test).exists()]
    for file, old, _ in mutant.changes:
        path = ROOT / "echelon" / file
        count = path.read_text().count(old) if path.exists() else 0
        missing += [] if count == 1 else [f"{file} holds {old!r} {count} times"]
    return missing


def copy_tree(to: Path) -> None:
    """Copy the files that git tracks or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def its_tests(mutant: Mutant) -> list[str]:
    """Return the paths of the tests that should detect it."""
    return [f"tests/{test}" for test in mutant.tests]


def run_tests(tree: Path, mutant: Mutant, timeout_s: float, flags: Sequence[str]) -> tuple[str, str]:
    """Run tests. Return `killed`, `timeout` or one of `RESULTS`, and their output; `flags` of pytest select the tests.

    They run in a fork of this process, which has already imported slow packages.
    """
    log = tree / "said.txt"
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            code = in_child(tree, mutant, log, flags)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    until = time.monotonic() + timeout_s
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout", ""
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(ended[1])
    return RESULTS.get(code, "killed"), log.read_text()


def in_child(tree: Path, mutant: Mutant, log: Path, flags: Sequence[str]) -> int:
    """Run the tests in the forked process; return pytest's exit status."""
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(tree)
    sys.path[:0] = [str(tree)]
    os.environ["PYTHONPATH"] = str(tree)
    sys.dont_write_bytecode = True
    if mutant.is_dense:
        sys.modules["numba"] = None  # type: ignore[assignment]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *flags]))


def try_mutant(tree: Path, mutant: Mutant, timeout_s: float, is_quick: bool) -> tuple[str, str]:
    """Break the rule in the copy, run its tests and restore it."""
    originals = {file: (tree / "echelon" / file).read_text() for file, _, _ in mutant.changes}
    for file, old, new in mutant.changes:
        path = tree / "echelon" / file
        path.write_text(path.read_text().replace(old, new))
    try:
        if not is_quick:
            return run_tests(tree, mutant, timeout_s, its_tests(mutant))
        # Its own tests run first, because collecting the others takes long.
        result, said = run_tests(tree, mutant, timeout_s, ["-m", "quick", *its_tests(mutant)])
        return (result, said) if result == "killed" else run_tests(tree, mutant, timeout_s, ["-m", "quick", "tests"])
    finally:
        for file, text in originals.items():
            (tree / "echelon" / file).write_text(text)


def is_green(
    tree: Path, mutant: Mutant, tests: list[str], timeout_s: float, known: dict[tuple[object, ...], bool]
) -> bool:
    """Return whether these tests pass without a mutant; `known` caches results."""
    key = (mutant.is_dense, *tests)
    if key not in known:
        known[key] = run_tests(tree, mutant, timeout_s, tests)[0] == "survived"
    return known[key]


def killer(said: str) -> str:
    """Return the first failed test, or the file that could not be imported."""
    lines = (line.split(" ", 1)[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR ")))
    return next(lines, "").split(" - ")[0]


def done_before(log: Path | None) -> set[str]:
    """Return the mutants with a result in the log."""
    if log is None or not log.exists():
        return set()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return {row["rule"] for row in rows if row["result"] in ("killed", "survived", "timeout")}


def main() -> int:
    """Try the mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the rules to break; all by default")
    parser.add_argument("--first", type=int, default=1, help="number to begin with")
    parser.add_argument("--log", type=Path, help="JSON lines; rules that are there are left out")
    parser.add_argument("--timeout-s", type=float, default=600.0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after so many, none is begun")
    parser.add_argument("--show", action="store_true", help="print the last lines of the tests")
    parser.add_argument("--lists", nargs="*", choices=LISTS, default=LISTS, help="which lists; all by default")
    parser.add_argument("--sample", type=int, help="so many of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="ask the tests marked `quick`, not those of each rule")
    parser.add_argument("--check", action="store_true", help="only check that every text is there")
    args = parser.parse_args()
    numbered = [(number, mutant) for number, (name, mutant) in enumerate(all_mutants(), 1) if name in args.lists]
    if args.sample is not None:
        numbered = sorted(random.Random(args.seed).sample(numbered, min(args.sample, len(numbered))))
    if args.check:
        wrong = [f"{number} {mutant.rule}: {why}" for number, mutant in numbered for why in problems(mutant)]
        print("\n".join([*wrong, f"{len(numbered)} mutants, {len(wrong)} do not fit"]))
        return int(bool(wrong))
    done, survived, green = done_before(args.log), 0, {}
    torch.set_num_threads(1)
    until = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for number, mutant in numbered:
            wanted = number in args.only if args.only else number >= args.first
            if not wanted or mutant.rule in done or time.monotonic() > until:
                continue
            began = time.perf_counter()
            wrong = problems(mutant)
            if wrong:
                result, said = "stale", "; ".join(wrong)
            elif not args.quick and not is_green(tree, mutant, its_tests(mutant), args.timeout_s, green):
                result, said = "red", "its tests fail without it"
            else:
                result, said = try_mutant(tree, mutant, args.timeout_s, args.quick)
            by = killer(said)
            if args.quick and by and not is_green(tree, mutant, [by], args.timeout_s, green):
                result = "red"
            survived += result == "survived"
            seconds = time.perf_counter() - began
            print(f"{number:4d} {result:9s} {seconds:5.0f} s  {mutant.changes[0][0]}: {mutant.rule}  {by}", flush=True)
            if args.show or wrong:
                print(said[-3000:], flush=True)
            if args.log is not None:
                with args.log.open("a") as log:
                    log.write(json.dumps({"number": number, "rule": mutant.rule, "result": result, "by": by}) + "\n")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
