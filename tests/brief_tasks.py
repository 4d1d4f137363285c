"""Named tasks with battles of two seconds on four maps, for tests that play them by name."""

import dataclasses

import pytest

from echelon.env.tasks import task as tasks
from echelon.rules.config import EnvConfig


def brief(config: EnvConfig) -> EnvConfig:
    return dataclasses.replace(config, map_pool=4, rules=dataclasses.replace(config.rules, max_episode_s=2.0))


def make_tasks_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the battles of all named tasks by such battles."""
    known = {
        name: dataclasses.replace(
            task, config=brief(task.config), evaluation=task.evaluation and brief(task.evaluation)
        )
        for name, task in tasks._built_in().items()
    }
    monkeypatch.setattr(tasks, "_built_in", lambda: known)
