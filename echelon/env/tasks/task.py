"""Named tasks: a name fixes battles, rules and evaluation, so that results of two papers can be compared.

The tasks of the package are the lines of `tasks.jsonl`. Each line is a complete task as JSON, so a changed preset or
default does not change it. Lines are never edited; when the rules change, `python docs/tasks.py` appends new versions
of the tasks. `echelon.rules.versions.ADDED` defines the value of a setting that a line lacks, and the task's
fingerprint includes this value. `register_task` adds a user's task.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from echelon.env.tasks.strangers import Strangers
from echelon.rules.config import EnvConfig, Split, env_from_json
from echelon.rules.config_json import as_json, from_json
from echelon.rules.scenario import Scenario
from echelon.rules.upgrade import env_under_current_rules
from echelon.rules.versions import CHANGES, Versions, current_versions, stored_versions
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import SEED, Limits, Settings

TABLE = Path(__file__).with_name("tasks.jsonl")
EVAL_SEED = 1_000_003
"""Seed of evaluation battles, and offset of their map seed, so that training uses none of these maps."""
RUN_SEED = 2_000_003
"""The same for a run's own evaluations, which choose its best checkpoint; no task's protocol uses this seed."""
TIERS = ("heuristic:easy", "heuristic:normal", "heuristic:hard", "heuristic:expert")
NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*-v[1-9][0-9]*")
"""Lower-case letters, digits and `._/-`, followed by the version of the task."""
BATTLES = Limits(2, 10**7, "battles against each opponent, an even number")


@dataclass(frozen=True)
class Protocol(Settings):
    """Evaluation of a policy. Actions are sampled, as in training, with random numbers from the battle's seed."""

    opponents: tuple[str, ...] = TIERS
    """Names of commanders, as in `echelon.agents.names`."""
    battles: Annotated[int, BATTLES] = 256
    """Battles against each opponent; every seed is played once per side."""
    seed: Annotated[int, SEED] = EVAL_SEED
    """Seed from which battle seeds are derived. A shorter evaluation plays the first battles of a longer one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.battles % 2 == 0, "Protocol.battles", "even (each seed is played on both sides)", self.battles)
        require(len(self.opponents) > 0, "Protocol.opponents", "names of commanders", self.opponents)


@dataclass(frozen=True)
class Task:
    """Battles for training, battles for evaluation, and the evaluation protocol.

    Args:
        name: name that ends in the task's version, such as `-v1`; the meaning of a name never changes.
        about: one line about what the task tests.
        config: battles of training.
        rules_version: version of the rules (`echelon.rules.versions.RULES_VERSION`) that the task was made for.
        map_maker: version of the map maker that the task was made for.
        evaluation: battles of evaluation; by default the battles of training, on maps of another seed.
        protocol: opponents, battles and seeds of the evaluation.
        strangers: evaluation protocol 2 of the task; None if the task has no protocol 2. The team size and map seeds of
            protocol 2 are those of `config` and `evaluation`.

    Raises:
        ConfigError: if a field has a wrong type.
    """

    name: str
    about: str
    config: EnvConfig
    rules_version: int
    map_maker: int
    evaluation: EnvConfig | None = None
    protocol: Protocol = Protocol()
    strangers: Strangers | None = None

    def __post_init__(self) -> None:
        kinds = {"config": EnvConfig, "protocol": Protocol, "evaluation": EnvConfig | None}
        for field, kind in {**kinds, "strangers": Strangers | None}.items():
            value = getattr(self, field)
            require(isinstance(value, kind), f"Task.{field}", getattr(kind, "__name__", "EnvConfig or None"), value)

    @property
    def evaluation_config(self) -> EnvConfig:
        """Battles of evaluation."""
        return held_out(self.config) if self.evaluation is None else self.evaluation

    def battle(self, split: Split, roster: int = 0) -> EnvConfig:
        """Return the config of protocol 2 battles in a split, in which both teams have the split's roster number
        `roster`.

        Raises:
            ConfigError: if the task has no protocol 2, or `roster` is out of range.
        """
        require(self.strangers is not None, f"task {self.name}", "a task with protocol 2, strangers/...", "one without")
        assert self.strangers is not None
        rosters = self.strangers.splits[split].rosters
        require(0 <= roster < len(rosters), "roster", f"0..{len(rosters) - 1}", roster)
        config = self.config if split == "train" else self.evaluation_config
        return dataclasses.replace(config, split=split, blue=rosters[roster], red=rosters[roster])

    @property
    def versions(self) -> Versions:
        """Versions of rules and map maker that the task was made for."""
        return Versions(self.rules_version, self.map_maker)

    @property
    def is_playable(self) -> bool:
        """Whether this version of Echelon has the task's rules and map maker."""
        return self.versions == current_versions()

    def successor(self) -> Task:
        """Return the next version of the task, under the rules and the map maker of this version of Echelon.

        Settings that had the default value under the task's rules get the current default. A user can register the
        result as a new version of their own task.
        """
        name, _, version = self.name.rpartition("-v")
        return dataclasses.replace(
            self,
            name=f"{name}-v{int(version) + 1}",
            config=self._today(self.config),
            rules_version=current_versions().rules,
            map_maker=current_versions().map_maker,
            evaluation=self.evaluation and self._today(self.evaluation),
        )

    def _today(self, config: EnvConfig) -> EnvConfig:
        return env_under_current_rules({**self.versions.as_json(), **as_json(config)})

    def describe(self) -> dict[str, Any]:
        """Return everything that the name fixes, as JSON values."""
        return {
            "name": self.name,
            **self.versions.as_json(),
            "config": as_json(self.config),
            "evaluation": as_json(self.evaluation_config),
            "protocol": {**as_json(self.protocol), "actions": "sampled"},
            **({} if self.strangers is None else {"strangers": as_json(self.strangers)}),
        }

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the sha256 of `describe`."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def held_out(config: EnvConfig, offset: int = EVAL_SEED) -> EnvConfig:
    """Return the config of the same battles on maps that training does not use. A config of the split `train` gets the
    split `validation`.

    Args:
        config: battles of training.
        offset: number added to the map seed, `EVAL_SEED` to judge a policy, or `RUN_SEED` to choose a run's best
            checkpoint.
    """
    split: Any = "validation" if config.split == "train" else config.split
    return dataclasses.replace(config, map_seed=config.map_seed + offset, split=split)


def task_from_json(row: dict[str, Any]) -> Task:
    """Return the task of a row of `tasks.jsonl`, which contains the entries of `Task.describe`, and `about`."""
    versions = stored_versions(row, row["name"])
    config, evaluation = (env_from_json({**versions.as_json(), **row[key]}) for key in ("config", "evaluation"))
    protocol = {name: value for name, value in row["protocol"].items() if name != "actions"}
    return Task(
        row["name"],
        row["about"],
        config,
        *versions,
        evaluation=None if evaluation == held_out(config) else evaluation,
        protocol=from_json(Protocol, protocol, "protocol"),
        strangers=from_json(Strangers, row["strangers"], "strangers") if "strangers" in row else None,
    )


@cache
def _built_in() -> dict[str, Task]:
    """Return the tasks of the package by name, read at the first call."""
    rows = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())
    return {row["name"]: task_from_json(row) for row in rows}


_REGISTERED: dict[str, Task] = {}


def register_task(task: Task) -> Task:
    """Register a user's task in this process, for `echelon.make`, `echelon.evaluate` and `echelon.tasks`.

    Args:
        task: the task.

    Returns:
        The task.

    Raises:
        ConfigError: if the name has an invalid form, or another task has this name.
    """
    require(isinstance(task, Task), "register_task", "a Task", task)
    require(isinstance(task.name, str), "Task.name", "a string", task.name)
    form = "lower-case letters, digits, '.', '_', '-' or '/', and a version: lab/duel-v1"
    require(NAME.fullmatch(task.name) is not None, "Task.name", form, task.name)
    is_line = isinstance(task.about, str) and task.about != "" and "\n" not in task.about
    require(is_line, "Task.about", "one line", task.about)
    if tasks().get(task.name, task) != task:
        raise ConfigError(f"task {task.name}: another task has this name. Give a changed task a new version")
    _REGISTERED[task.name] = task
    return task


def tasks() -> dict[str, Task]:
    """Return all tasks by name, including tasks for earlier rules, which this version cannot play
    (`Task.is_playable`)."""
    return {**_built_in(), **_REGISTERED}


def latest(name: str) -> str:
    """Return the full name of a task's newest version, for `make` and `evaluate`.

    Args:
        name: name without version, such as `small-5v5`.

    Raises:
        ConfigError: if there is no task with this name.
    """
    newest: dict[str, int] = {}
    for task in tasks():
        stem, _, version = task.rpartition("-v")
        newest[stem] = max(newest.get(stem, 0), int(version))
    require(isinstance(name, str) and name in newest, "latest", f"one of {', '.join(newest)}", name)
    return f"{name}-v{newest[name]}"


def scenario_task(config: EnvConfig) -> Task:
    """Return a task whose battles start from given positions. Training and evaluation use the same positions, and
    evaluation is against the scripted tiers."""
    require(len(config.positions) > 0, "config.positions", "positions of a scenario (echelon.scene_config)", "none")
    return Task("scenario", "battles that start from given positions", config, *current_versions())


def find_task(task: str | Task | Scenario) -> Task:
    """Return the task for a name, a scenario or a task, if this version of Echelon has the task's rules.

    Args:
        task: name in `tasks()`, a scenario, or a task.

    Raises:
        ConfigError: if the name is unknown, or the task is for other rules or another map maker.
    """
    if isinstance(task, Scenario):
        return scenario_task(task.config)
    if isinstance(task, str):
        table = tasks()
        names = ", ".join(name for name, entry in table.items() if entry.is_playable)
        require(task in table, "task", f"one of {names}, or a task of echelon.register_task", task)
        task = table[task]
    require(isinstance(task, Task), "task", "a name of echelon.tasks(), a Task or a Scenario", task)
    check_versions(task)
    return task


def check_versions(task: Task) -> None:
    """Raise `ConfigError` for a task whose rules or map maker this version of Echelon does not have."""
    if task.is_playable:
        return
    current, stored = (f"rules {v.rules}, map maker {v.map_maker}" for v in (current_versions(), task.versions))
    change = CHANGES.get(task.rules_version)
    playable = ", ".join(name for name, entry in tasks().items() if entry.is_playable)
    raise ConfigError(
        f"task {task.name} was made for {stored}, but this Echelon has {current}, so results would not be comparable: "
        f"install {f'Echelon {change.echelon}' if change else 'a newer Echelon'}, or choose one of {playable}"
    )
