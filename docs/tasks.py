"""Gives tasks of earlier rules, or populations, their successors.

python docs/tasks.py

The newest row of each task in `echelon/env/tasks/tasks.jsonl` that is of other rules, or of another map maker, than
today's gets a successor behind all rows, and so does one of protocol 2 whose strangers are not those of
`echelon/agents/populations.json`. A row that is there is left alone, and one that is another
task than its fingerprint tells is refused.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from echelon.agents.populations import OPPONENT, PARTNER, names_in
from echelon.env.tasks.task import TABLE, Task, latest, register_task, tasks
from echelon.runtime.errors import require
from echelon.runtime.files import append_whole


def main(table: Path = TABLE) -> None:
    """Append successors to the table.

    Raises:
        ConfigError: a task of it is no longer what its fingerprint tells.
    """
    for line in map(json.loads, table.read_text().splitlines()):
        now = tasks()[line["name"]].fingerprint
        require(now == line["fingerprint"], f"fingerprint of {line['name']}", f"{line['fingerprint']}, for good", now)
    names = dict.fromkeys(latest(name.rpartition("-v")[0]) for name in tasks())
    old = [task for task in map(tasks().__getitem__, names) if not task.is_playable or task != of_today(task)]
    made = [register_task(of_today(task).successor()) for task in old]
    if made:
        append_whole(table, "".join(map(row, made)).encode())


def of_today(task: Task) -> Task:
    """The task with the opponents and partners of today's populations, where it has protocol 2."""
    if task.strangers is None:
        return task
    splits: dict[str, Any] = {
        split: dataclasses.replace(population, opponents=names_in(split, OPPONENT), partners=names_in(split, PARTNER))
        for split, population in task.strangers.splits.items()
    }
    return dataclasses.replace(task, strangers=dataclasses.replace(task.strangers, **splits))


def row(task: Task) -> str:
    """The line of a task in the table."""
    return (
        json.dumps({"name": task.name, "about": task.about, "fingerprint": task.fingerprint, **task.describe()}) + "\n"
    )


if __name__ == "__main__":
    main()
