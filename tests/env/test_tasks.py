"""Named tasks: what a name fixes, and what is refused."""

import dataclasses
import re
from pathlib import Path

import pytest

import echelon
from echelon.env import task_table, tasks
from echelon.env.tasks import EVAL_SEED, Protocol, Task, find_task, register_task
from echelon.rules.config import EnvConfig, RulesConfig, WorldConfig
from echelon.rules.versions import MAP_MAKER_VERSION, RULES_VERSION
from echelon.runtime.errors import ConfigError

FINGERPRINTS = {
    "small-5v5-v1": "8a6c611167be3a9c",
    "standard-10v10-v1": "8f5749e3d5e3e137",
    "large-10v10-v1": "c75fbd2b63f0cde6",
    "unequal-4v7-v1": "da61a6070bc45553",
    "command-10v10-v1": "22626bd4ed91672a",
    "full-5v5-v1": "c0b18c874d7d52ec",
    "silent-10v10-v1": "5f30a06df71e8348",
    "biomes-5v5-v1": "2de2d02a8bc6937e",
}
"""Published: a row never changes. What should be otherwise becomes a task of the next version, with a row here."""
OWN = Task("lab/duel-v1", "one against one", EnvConfig(blue=("medium",), red=("medium",)), 3, 2)


@pytest.fixture
def registry(monkeypatch):
    echelon.tasks()
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))


def test_no_edit_changes_a_published_task():
    known = {name: task for name, task in echelon.tasks().items() if task.is_playable}
    assert {name: task.fingerprint for name, task in known.items()} == FINGERPRINTS


def test_the_page_tells_every_task_and_its_fingerprint():
    page = (Path(__file__).parents[2] / "docs" / "TASKS.md").read_text()
    told = dict(re.findall(r"^\| `([\w.-]+-v\d+)` \|.*\| `([0-9a-f]{16})` \|$", page, re.M))
    assert told == FINGERPRINTS
    for name, task in echelon.tasks().items():
        assert f"| `{name}` | {task.about} |" in page, name


@pytest.mark.parametrize(
    "change",
    [
        {"config": dataclasses.replace(EnvConfig.small(), map_seed=1)},
        {"config": dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=30.0))},
        {"rules_version": RULES_VERSION + 1},
        {"map_maker": MAP_MAKER_VERSION + 1},
        {"evaluation": dataclasses.replace(EnvConfig.small(), map_seed=7)},
        {"protocol": Protocol(battles=2)},
        {"protocol": Protocol(opponents=("heuristic:easy",))},
        {"protocol": Protocol(seed=4)},
        {"name": "small-5v5-v2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_name_fixes_is_in_its_fingerprint(change):
    small = find_task("small-5v5-v1")
    assert dataclasses.replace(small, **change).fingerprint != small.fingerprint
    assert dataclasses.replace(small, about="other words").fingerprint == small.fingerprint


def test_evaluation_is_on_other_maps_and_other_biomes():
    for name, task in echelon.tasks().items():
        assert task.evaluation_config.map_seed == task.config.map_seed + EVAL_SEED, name
    task = find_task("biomes-5v5-v1")
    trained, judged = (set(each.world.biomes) for each in (task.config, task.evaluation_config))
    assert not trained & judged and judged == set(task_table.HELD_OUT) and len(trained | judged) == 16
    by_map = dataclasses.replace(task.evaluation_config, world=task.config.world, map_seed=task.config.map_seed)
    assert by_map == task.config, "nothing else differs"


def test_a_task_of_other_rules_is_refused_by_name_and_with_what_to_do(registry):
    for field, other in (("rules_version", RULES_VERSION + 1), ("map_maker", MAP_MAKER_VERSION - 1)):
        task = register_task(dataclasses.replace(OWN, name=f"{field.replace('_', '-')}-v1", **{field: other}))
        assert not task.is_playable and task.name in echelon.tasks()
        for use in (lambda task=task: echelon.make(task.name), lambda task=task: echelon.evaluate("heuristic", task)):
            with pytest.raises(ConfigError, match=rf"task {task.name} is of rules .*: install .* small-5v5-v1"):
                use()


def test_a_stranger_registers_a_task(registry):
    assert register_task(OWN) is OWN and register_task(dataclasses.replace(OWN)) == OWN
    assert echelon.tasks()["lab/duel-v1"] == OWN
    env = echelon.make("lab/duel-v1", num_envs=2, seed=0, device="cpu")
    assert env.config == OWN.config and env.n_agents == 1
    with pytest.raises(
        ConfigError, match="lab/duel-v1 means something else already: give a changed task a new version"
    ):
        register_task(dataclasses.replace(OWN, protocol=Protocol(battles=4)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Duel-v1"}, "Task.name must be lower-case"),
        ({"name": "duel"}, "Task.name must be lower-case"),
        ({"about": "two\nlines"}, "Task.about must be one line"),
    ],
)
def test_a_bad_name_is_one_line(registry, change, message):
    with pytest.raises(ConfigError, match=message):
        register_task(dataclasses.replace(OWN, **change))
    with pytest.raises(ConfigError, match=r"task must be one of small-5v5-v1, .*, got 'small'"):
        find_task("small")
    with pytest.raises(ConfigError, match=r"Protocol.battles must be even"):
        Protocol(battles=3)
    for opponents in ("heuristic:easy", (), (3,)):
        with pytest.raises(ConfigError, match=r"Protocol.opponents must be"):
            Protocol(opponents=opponents)
    assert Protocol(opponents=["heuristic:easy"]) == Protocol(opponents=("heuristic:easy",))
    with pytest.raises(ConfigError, match=r"Task.config must be EnvConfig"):
        Task("x-v1", "x", WorldConfig(), 3, 2)
