"""Append successors of tasks made for earlier rules or populations.

python docs/tasks.py

The newest row of each task in `echelon/env/tasks/tasks.jsonl` gets a successor if its rules or map maker differ from
the current ones, or if the strangers of its protocol 2 differ from `echelon/agents/populations.json`. Existing rows do
not change; a row that does not match its fingerprint is refused.
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
        ConfigError: a row does not match its fingerprint.
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
    """Return the task with the opponents and partners of the current populations, if it has protocol 2."""
    if task.strangers is None:
        return task
    splits: dict[str, Any] = {
        split: dataclasses.replace(population, opponents=names_in(split, OPPONENT), partners=names_in(split, PARTNER))
        for split, population in task.strangers.splits.items()
    }
    return dataclasses.replace(task, strangers=dataclasses.replace(task.strangers, **splits))


def row(task: Task) -> str:
    """Return the line of a task in the table."""
    return (
        json.dumps({"name": task.name, "about": task.about, "fingerprint": task.fingerprint, **task.describe()}) + "\n"
    )


if __name__ == "__main__":
    main()
