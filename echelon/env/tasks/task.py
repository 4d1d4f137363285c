"""Named tasks: a name fixes battles, rules and evaluation, so that figures of two papers can be compared.

Those of the package are the lines of `tasks.jsonl`, each the whole of a task as JSON, which no preset and no default of
a setting can change. A line is never edited: `python docs/tasks.py` appends a successor where the rules have changed.
What a line means that lacks a setting of today is said in `echelon.rules.versions.ADDED`, and its fingerprint holds
it. `register_task` adds a task of one's own.
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
"""Seed of evaluation battles, and offset of their map seed: training uses none of these maps."""
RUN_SEED = 2_000_003
"""The same for a training run's own evaluations, which choose its best checkpoint: no task's protocol plays them."""
TIERS = ("heuristic:easy", "heuristic:normal", "heuristic:hard", "heuristic:expert")
NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*-v[1-9][0-9]*")
"""Lower-case letters, digits and `._/-`, and the version of the task."""
BATTLES = Limits(2, 10**7, "battles against each opponent, an even number")


@dataclass(frozen=True)
class Protocol(Settings):
    """How a policy is evaluated. Actions are sampled, as in training, with random numbers of the battle's seed."""

    opponents: tuple[str, ...] = TIERS
    """Names of commanders, as `echelon.agents.names` takes them."""
    battles: Annotated[int, BATTLES] = 256
    """Against each opponent; every seed is played once per side."""
    seed: Annotated[int, SEED] = EVAL_SEED
    """From which the seeds of the battles are derived: the first battles of a longer evaluation are a shorter one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.battles % 2 == 0, "Protocol.battles", "even (each seed is played on both sides)", self.battles)
        require(len(self.opponents) > 0, "Protocol.opponents", "names of commanders", self.opponents)


@dataclass(frozen=True)
class Task:
    """Battles to learn from, battles to be judged in, and how.

    Args:
        name: ends in the task's own version, `-v1`; it never gets another meaning.
        about: one line that says what the task tests.
        config: battles of training.
        rules_version: version of the rules (`echelon.rules.versions.RULES_VERSION`) that the task was made for.
        map_maker: version of the map maker, the same.
        evaluation: battles of evaluation; by default those of training on maps of another seed.
        protocol: opponents, battles and seeds of the evaluation.
        strangers: what protocol 2 of the task is, of which `config` and `evaluation` have teams and the seeds of maps;
            None for a task without one.
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
        """Battles of protocol 2 in a split, in which both teams are of its roster of a number."""
        require(self.strangers is not None, f"task {self.name}", "one of protocol 2, strangers/...", "none of it")
        assert self.strangers is not None
        rosters = self.strangers.splits[split].rosters
        require(0 <= roster < len(rosters), "roster", f"0..{len(rosters) - 1}", roster)
        config = self.config if split == "train" else self.evaluation_config
        return dataclasses.replace(config, split=split, blue=rosters[roster], red=rosters[roster])

    @property
    def versions(self) -> Versions:
        """Versions of rules and map maker that the task names."""
        return Versions(self.rules_version, self.map_maker)

    @property
    def is_playable(self) -> bool:
        """Whether the rules and the map maker of this Echelon are those of the task."""
        return self.versions == current_versions()

    def successor(self) -> Task:
        """The next version of the task: its battles under the rules and the map maker of this Echelon, where a setting
        that had the default of the task's rules takes today's. A task of one's own may be registered by it."""
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
        """All that the name fixes, as JSON values."""
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
        """sha256 of `describe`, the first 16 hexadecimal digits."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def held_out(config: EnvConfig, offset: int = EVAL_SEED) -> EnvConfig:
    """Return the same battles on maps that training does not use. Split `train` becomes split `validation`.

    Args:
        config: the battles to learn from.
        offset: added to the map seed: `EVAL_SEED` for what judges a policy, `RUN_SEED` for what a run chooses by.
    """
    split: Any = "validation" if config.split == "train" else config.split
    return dataclasses.replace(config, map_seed=config.map_seed + offset, split=split)


def task_from_json(row: dict[str, Any]) -> Task:
    """The task of which a row holds `Task.describe` and `about`."""
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
    """Tasks of the package by name, read when they are first asked for."""
    rows = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())
    return {row["name"]: task_from_json(row) for row in rows}


_REGISTERED: dict[str, Task] = {}


def register_task(task: Task) -> Task:
    """Give a task of one's own its name in this process; `echelon.make`, `echelon.evaluate` and `tasks` then know it.

    Returns:
        The task.

    Raises:
        ConfigError: the name has another form, or means another task.
    """
    require(isinstance(task, Task), "register_task", "a Task", task)
    require(isinstance(task.name, str), "Task.name", "a string", task.name)
    form = "lower-case letters, digits, '.', '_', '-' or '/', and a version: lab/duel-v1"
    require(NAME.fullmatch(task.name) is not None, "Task.name", form, task.name)
    is_line = isinstance(task.about, str) and task.about != "" and "\n" not in task.about
    require(is_line, "Task.about", "one line", task.about)
    if tasks().get(task.name, task) != task:
        raise ConfigError(f"task {task.name} means something else already: give a changed task a new version")
    _REGISTERED[task.name] = task
    return task


def tasks() -> dict[str, Task]:
    """All tasks by name, those of earlier rules too (`Task.is_playable`)."""
    return {**_built_in(), **_REGISTERED}


def latest(name: str) -> str:
    """The full name of the newest version of a task, as `make` and `evaluate` take it: of `small-5v5`, say.

    Args:
        name: without its version.

    Raises:
        ConfigError: there is no such task.
    """
    newest: dict[str, int] = {}
    for task in tasks():
        stem, _, version = task.rpartition("-v")
        newest[stem] = max(newest.get(stem, 0), int(version))
    require(isinstance(name, str) and name in newest, "latest", f"one of {', '.join(newest)}", name)
    return f"{name}-v{newest[name]}"


def scenario_task(config: EnvConfig) -> Task:
    """Battles that begin in positions, as a task: trained and judged in the same ones, against the scripted tiers."""
    require(len(config.positions) > 0, "config.positions", "those of a scenario, as echelon.scene_config", "none")
    return Task("scenario", "battles that begin as somebody has written down", config, *current_versions())


def find_task(task: str | Task | Scenario) -> Task:
    """The task of a name or of a scenario, or the task itself, if it can be played under the rules of this Echelon."""
    if isinstance(task, Scenario):
        return scenario_task(task.config)
    if isinstance(task, str):
        table = tasks()
        names = ", ".join(name for name, entry in table.items() if entry.is_playable)
        require(task in table, "task", f"one of {names}, or one of your own by echelon.register_task", task)
        task = table[task]
    require(isinstance(task, Task), "task", "a name of echelon.tasks(), a Task or a Scenario", task)
    check_versions(task)
    return task


def check_versions(task: Task) -> None:
    """Refuse a task of other rules, or of another map maker, than this Echelon's."""
    if task.is_playable:
        return
    current, stored = (f"rules {v.rules}, map maker {v.map_maker}" for v in (current_versions(), task.versions))
    change = CHANGES.get(task.rules_version)
    playable = ", ".join(name for name, entry in tasks().items() if entry.is_playable)
    raise ConfigError(
        f"task {task.name} is of {stored}, and this Echelon has {current}, so that its figures could not be compared: "
        f"install {f'Echelon {change.echelon}' if change else 'a newer Echelon'}, or take one of {playable}"
    )
