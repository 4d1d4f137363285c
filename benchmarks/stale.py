"""List figures of the pages whose sources have changed since the commit that they name.

python benchmarks/stale.py

Sources are the folders of the package by what a figure depends on. A text change counts as a change: the list says
which figures to check, not which are wrong.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCES = {
    "rules": ("echelon/rules", "echelon/sim", "echelon/world", "echelon/env"),
    "opponents": ("echelon/agents", "echelon/trained"),
    "training": ("echelon/learn",),
    "judging": ("echelon/arena", "echelon/league"),
}
"""Folders whose changes may change a figure, by kind."""
COMMIT = re.compile(r"(?<![0-9a-f])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,8}(?![0-9a-f])")
"""A short hash: hexadecimal, with a letter and a digit."""


class Figure(NamedTuple):
    """A line of a page that names a commit."""

    page: str
    line: int
    section: str
    commit: str


def figures(root: Path) -> Iterator[Figure]:
    """Yield each line of README, docs and benchmarks that names a commit of the repository at `root`."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md")), root / "benchmarks" / "README.md"]
    for page in filter(Path.exists, pages):
        section = ""
        for number, text in enumerate(page.read_text().splitlines(), 1):
            if text.startswith("#"):
                section = text.lstrip("# ")
            for commit in dict.fromkeys(COMMIT.findall(text)):
                if git(root, "cat-file", "-e", f"{commit}^{{commit}}") is not None:
                    yield Figure(str(page.relative_to(root)), number, section, commit)


def changes(root: Path, commit: str) -> dict[str, int]:
    """Return the number of commits since `commit` that changed the sources, by kind; unchanged kinds are omitted."""
    counts = {}
    for kind, folders in SOURCES.items():
        count = int(git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *folders) or 0)
        if count > 0:
            counts[kind] = count
    return counts


def git(root: Path, *arguments: str) -> str | None:
    """Return the output of git; None if git fails."""
    result = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def table(root: Path) -> str:
    """Return a Markdown table with one row per stale figure, and a line that counts stale and current figures."""
    rows, fresh = ["| page | section | commit | commits to its sources since |", "|---|---|---|---|"], 0
    for figure in figures(root):
        since = changes(root, figure.commit)
        told = ", ".join(f"{kind} {count}" for kind, count in since.items())
        if since:
            rows.append(f"| {figure.page}:{figure.line} | {figure.section} | {figure.commit} | {told} |")
        fresh += not since
    return "\n".join([*rows, "", f"{len(rows) - 2} figures have changed sources, {fresh} have not."])


if __name__ == "__main__":
    print(table(ROOT))
