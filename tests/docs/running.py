"""Run the commands of pages in this process, with small sizes."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pages import ROOT, blocks, commands, program

from echelon.league.store import Store
from echelon.pipelines import arena, train
from echelon.pipelines import commands as echelon_program

PROGRAMS: dict[str, Callable[[], object]] = {
    "train": train.main,
    "arena": arena.main,
    "echelon": lambda: echelon_program.main(""),
}
BENCHMARKS = "benchmarks/"
STANDS_FOR = {"TASK": "small-5v5-v1", "SEED": "0", "CHECKPOINT": "runs/mine"}
"""Placeholders of pages, and the values used here."""
ENTRY = "calm-raven"
"""Name of a league entry on the pages; here it stands for the newest entry."""
SMALLER = {
    "--battles": "4",
    "--agent-steps": "160",
    "--total-agent-steps": "640",
    "--seeds": "1",
    "--turns": "1",
    "--num-envs": "32",
    "--train.num-envs": "32",
    "--maps": "2",
}
"""Small values for flags that set the amount of work."""
FURTHER = {
    "benchmarks/baselines/run.py": ["--num-envs", "4", "--out", "rows.jsonl", "--leaderboard", "rows.json"],
    "evolve": ["--iterations", "1", "--train.num-envs", "16", "--train.ppo.rollout-decisions", "32"],
    "exploit": ["--battles", "2"],
    "pieces": ["--seeds", "1"],
    "whatif": ["--branches", "2"],
}
"""Flags added to a program or command, to limit its work or to keep it from writing into the repository."""


def is_echelons(words: Sequence[str]) -> bool:
    """Return whether a command runs a program of this repository."""
    return program(list(words))[0] in PROGRAMS or any(word.startswith(BENCHMARKS) for word in words[:2])


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the commands of Echelon's programs on a page, in order."""
    for language in ("sh", "bash", "console"):
        for block in blocks(page, language):
            yield from (words for words in commands(block) if is_echelons(words))


def small(words: Sequence[str]) -> list[str]:
    """Return a command with small sizes, and with placeholders replaced."""
    rest = program(list(words))[1]
    start = words[: len(words) - len(rest)]
    rest = [SMALLER.get(before, word) for before, word in zip(["", *rest], rest, strict=False)]
    rest = [word for given in rest for word in expanded(STANDS_FOR.get(given, given))]
    for part, more in FURTHER.items():
        if part in words:
            rest += more
    return [*start, *rest]


def expanded(word: str) -> list[str]:
    """Expand a word as a shell does."""
    if word == ENTRY:
        return [newest_entry(Path("leagues/mine"))]
    return sorted(glob.glob(word)) if "*" in word else [os.path.expanduser(word)]


def newest_entry(league: Path) -> str:
    """Return the name of the newest entry of a league that is not scripted."""
    with closing(Store(league)) as store:
        return [entry.name for entry in store.active() if not entry.is_scripted][-1]


def run_here(words: Sequence[str]) -> None:
    """Run a command of Echelon in this process. Fail if the program ends with an error."""
    name, rest = program(list(words))
    make_room(words)
    with pytest.MonkeyPatch.context() as patch, ends_well(words):
        if name in PROGRAMS:
            patch.setattr(sys, "argv", [words[0], *rest])
            PROGRAMS[name]()
        else:
            script = ROOT / rest[0]
            patch.setattr(sys, "argv", rest)
            patch.syspath_prepend(script.parent)
            runpy.run_path(str(script), run_name="__main__")


def make_room(words: Sequence[str]) -> None:
    """Remove the run or league that a command creates and an earlier command of the page has created."""
    flags = dict(itertools.pairwise(words))
    if "--resume" not in words and "--run-dir" in words:
        shutil.rmtree(flags["--run-dir"], ignore_errors=True)
    if "init" in words:
        shutil.rmtree(flags["--league"], ignore_errors=True)


@contextlib.contextmanager
def ends_well(words: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except SystemExit as end:
        assert end.code in (None, 0), f"{' '.join(words)}: {end.code}"
