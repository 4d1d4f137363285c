"""`benchmarks/stale.py` on a small repository."""

import importlib
import subprocess
from pathlib import Path

import pytest


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, file: str, text: str) -> str:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", file)
    return git(folder, "rev-parse", "--short=8", "HEAD")


@pytest.fixture
def stale(monkeypatch):
    # With fixed dates the hashes are fixed. A hash without a letter would not be read as a commit.
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(name, "2026-01-01T00:00:00+0000")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module("stale")


def test_figure_is_stale_after_a_change_to_its_sources_only(stale, tmp_path):
    git(tmp_path, "init", "-q")
    old = commit(tmp_path, "echelon/sim/heat.py", "a = 1\n")
    commit(tmp_path, "echelon/sim/heat.py", "a = 2\n")
    commit(tmp_path, "echelon/learn/ppo.py", "b = 1\n")
    new = commit(tmp_path, "echelon/viewer/page.py", "c = 1\n")
    page = (
        f"# Results\n\n## Rates\n\n| 81 % | {old} |\n\n## Wins\n\n| 75 % | commit {new} |\n\nnot a commit: deadbee1\n"
    )
    commit(tmp_path, "docs/LEAGUE.md", page)
    commit(tmp_path, "tests/test.py", "")
    assert [(figure.section, figure.commit) for figure in stale.figures(tmp_path)] == [("Rates", old), ("Wins", new)]
    assert stale.changes(tmp_path, old) == {"rules": 1, "training": 1} and stale.changes(tmp_path, new) == {}
    lines = stale.table(tmp_path).splitlines()
    assert lines[2] == f"| docs/LEAGUE.md:5 | Rates | {old} | rules 1, training 1 |"
    assert lines[-1] == "1 figures have changed sources, 1 have not."
