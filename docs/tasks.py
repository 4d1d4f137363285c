"""Gives tasks of earlier rules, or populations, their successors, and writes the table of `docs/TASKS.md`.

python docs/tasks.py

The newest row of each task in `echelon/env/tasks/tasks.jsonl` that is of other rules, or of another map maker, than
today's gets a successor behind all rows, and so does one of protocol 2 whose strangers are not those of
`echelon/agents/populations.json`. A row that is there is left alone.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from echelon.agents.populations import OPPONENT, PARTNER, names_in
from echelon.env.tasks.task import TABLE, Task, latest, register_task, tasks
from echelon.runtime.errors import require
from echelon.runtime.files import append_whole, write_whole

PAGE = Path(__file__).with_name("TASKS.md")
HEAD = "| task | what it tests | rules, map maker | fingerprint |\n|---|---|---|---|\n"
LINE = "| `{name}` | {about} | {rules}, {map_maker} | `{fingerprint}` |\n"


def main(table: Path = TABLE, page: Path = PAGE) -> None:
    """Append successors to the table, and write the page anew."""
    names = dict.fromkeys(latest(name.rpartition("-v")[0]) for name in tasks())
    old = [task for task in map(tasks().__getitem__, names) if not task.is_playable or task != of_today(task)]
    made = [register_task(of_today(task).successor()) for task in old]
    if made:
        append_whole(table, "".join(map(row, made)).encode())
    write_whole(page, render(page.read_text()).encode())


def of_today(task: Task) -> Task:
    """The task with the opponents and partners of today's populations, where it has protocol 2."""
    if task.strangers is None:
        return task
    splits: dict[str, Any] = {
        split: dataclasses.replace(own, opponents=names_in(split, OPPONENT), partners=names_in(split, PARTNER))
        for split, own in task.strangers.splits.items()
    }
    return dataclasses.replace(task, strangers=dataclasses.replace(task.strangers, **splits))


def row(task: Task) -> str:
    """The line of a task in the table."""
    return json.dumps({"name": task.name, "about": task.about, **task.describe()}) + "\n"


def render(page: str) -> str:
    """The page with a line for every task.

    Raises:
        ConfigError: a task is no longer what the page tells of it.
    """
    before, after = page.split(HEAD)
    lines, rest = after.split("\n\n", 1)
    for name, fingerprint in re.findall(r"^\| `(\S+)` \|.* `(\w+)` \|$", lines, re.M):
        now = tasks()[name].fingerprint if name in tasks() else "none"
        require(now == fingerprint, f"fingerprint of {name}", f"{fingerprint}, since a task never changes", now)
    body = "".join(
        LINE.format(name=name, about=task.about, fingerprint=task.fingerprint, **task.versions._asdict())
        for name, task in tasks().items()
    )
    return f"{before}{HEAD}{body}\n{rest}"


if __name__ == "__main__":
    main()
