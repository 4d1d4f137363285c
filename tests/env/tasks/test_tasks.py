"""Named tasks: settings fixed by a name, invalid tasks, and successors."""

import dataclasses
import hashlib
import importlib.util
import json
import re
from pathlib import Path

import pytest
from next_rules import NEXT, OURS, RADAR_VOX, STEP_UP_VOX, change_rules

import echelon
from echelon.env.tasks import task as tasks
from echelon.env.tasks.task import EVAL_SEED, TABLE, Protocol, Task, find_task, latest, register_task, task_from_json
from echelon.rules import versions
from echelon.rules.config import EnvConfig, FeaturesConfig, WorldConfig, env_from_json
from echelon.rules.config_json import as_json
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import MAP_MAKER_VERSION, RULES_VERSION, Change, current_versions
from echelon.runtime.errors import ConfigError

SMALL = latest("small-5v5")
PAGE = Path(__file__).parents[3] / "docs" / "TASKS.md"
PUBLISHED = "4267b803fd3f01b748e9b89a7d3a07846316d8a6d21aa43ac53281cc94209e35"
"""sha256 of the first eleven rows."""
OWN = Task("lab/duel-v1", "one against one", EnvConfig(blue=("medium",), red=("medium",)), *current_versions())


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(tasks, "_REGISTERED", {})


@pytest.fixture(scope="module")
def program():
    """Import `docs/tasks.py`."""
    source = importlib.util.spec_from_file_location("tasks_program", PAGE.with_name("tasks.py"))
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    return module


def rows(table=TABLE) -> list[dict]:
    return [json.loads(line) for line in table.read_text().splitlines()]


def described(task: Task) -> dict:
    """Return the fields of a row besides `Task.describe`."""
    return {"name": task.name, "about": task.about, "fingerprint": task.fingerprint}


def battles(row: dict) -> list[dict]:
    return [row["config"], row["evaluation"]]


def test_published_task_cannot_be_edited(program, registry, monkeypatch, tmp_path):
    """`python docs/tasks.py` rejects a task that differs from its fingerprint."""
    table = tmp_path / "tasks.jsonl"
    table.write_bytes(TABLE.read_bytes())
    changed = dataclasses.replace(find_task(SMALL), protocol=Protocol(battles=2))
    monkeypatch.setitem(tasks._REGISTERED, SMALL, changed)
    with pytest.raises(ConfigError, match=f"fingerprint of {SMALL} must be .*, for good, got"):
        program.main(table)


def test_rows_of_the_first_release_are_unchanged():
    """Rows include fingerprints, so an edit of both is detected too. Successors are appended."""
    published = b"".join(TABLE.read_bytes().splitlines(keepends=True)[:11])
    assert hashlib.sha256(published).hexdigest() == PUBLISHED


def test_tasks_page_lists_every_task():
    told = re.findall(r"^\|`(\S+)`\|(.*)\|$", PAGE.read_text(), re.M)
    assert dict(told) == {task.name.rpartition("-v")[0]: task.about for task in map(task_from_json, rows())}


def test_row_contains_every_setting_of_the_task(registry):
    """A row then does not depend on defaults. Names have the form required by `register_task`."""
    for row in rows():
        task = register_task(task_from_json(row))
        assert row == {**described(task), **task.describe()}
        for part in battles(row):
            missing = as_json(EnvConfig(), whole=True).keys() - part.keys()
            assert missing <= versions.ADDED.get("EnvConfig", {}).keys(), row["name"]


def test_changed_preset_or_default_changes_no_task(monkeypatch):
    before = {name: task.fingerprint for name, task in echelon.tasks().items()}
    for kind, name, value in ((RulesConfig, "jet_heat_per_s", 18.0), (EnvConfig, "comm_dim", 4), (Protocol, "seed", 5)):
        names = [field.name for field in dataclasses.fields(kind)]
        defaults = list(kind.__init__.__defaults__)
        defaults[names.index(name) - len(names)] = value
        monkeypatch.setattr(kind.__init__, "__defaults__", tuple(defaults))
        monkeypatch.setattr(kind, name, value)
        assert getattr(kind(), name) == value
    for preset in ("small", "standard", "large"):
        monkeypatch.setattr(EnvConfig, preset, lambda: EnvConfig(blue=("light",)))
    again = [task_from_json(row) for row in rows()]
    assert {task.name: task.fingerprint for task in again} == before
    assert all(task.config.rules.jet_heat_per_s == 15.0 for task in again if task.rules_version == 3)


def test_row_without_a_newer_setting_gets_its_value_from_added(monkeypatch):
    """The default does not matter. Signature and fingerprint omit a setting with its value in `ADDED`."""
    small, own = find_task(SMALL), EnvConfig(features=FeaturesConfig(smoke=False))
    (row,) = (row for row in rows() if row["name"] == SMALL)
    later = {
        **versions.ADDED,
        "FeaturesConfig": {"smoke": True},
        "HullSpec": {"hp": 60.0},
        "Protocol": {"battles": 256},
    }
    monkeypatch.setattr(versions, "ADDED", later)
    for part in battles(row):
        del part["features"]["smoke"], part["catalog"]["hulls"]["scout"]["hp"]
    del row["protocol"]["battles"]
    monkeypatch.setattr(FeaturesConfig.__init__, "__defaults__", (False,) * 7)
    before, signature = task_from_json(row), small.config.signature()
    assert before == small
    told = {**described(small), "fingerprint": row["fingerprint"], **before.describe()}
    assert row == told, "the fingerprint is a hash of it"
    assert "smoke" not in signature["features"] and env_from_json(signature) == small.config
    assert own.signature()["features"]["smoke"] is False and env_from_json(own.signature()) == own
    earlier = {kind: values for kind, values in later.items() if kind not in ("FeaturesConfig", "HullSpec", "Protocol")}
    monkeypatch.setattr(versions, "ADDED", earlier)
    with pytest.raises(ConfigError, match=r"HullSpec lacks hp|FeaturesConfig lacks smoke"):
        task_from_json(row)


def test_new_rules_append_a_successor_for_every_task(program, registry, monkeypatch, tmp_path):
    table = tmp_path / "tasks.jsonl"
    table.write_bytes(TABLE.read_bytes())
    program.main(table)
    assert table.read_bytes() == TABLE.read_bytes(), "nothing to append"
    newest = {row["name"]: row for row in rows() if row["rules_version"] == OURS}
    monkeypatch.setattr(versions, "RULES_VERSION", NEXT)
    monkeypatch.setitem(versions.CHANGES, NEXT, Change("nothing that a setting tells"))
    for _ in range(2):  # the second call has nothing to append
        program.main(table)
        assert table.read_bytes().startswith(TABLE.read_bytes())
        made = rows(table)[len(rows()) :]
        for before, after in zip(newest.values(), made, strict=True):
            name, _, number = before["name"].rpartition("-v")
            new = {"name": f"{name}-v{int(number) + 1}", "rules_version": NEXT}
            assert after == {**before, **new, "fingerprint": find_task(new["name"]).fingerprint}
            assert latest(name) == after["name"] and find_task(after["name"]).is_playable
            with pytest.raises(
                ConfigError, match=rf"^task {before['name']} was made for rules {OURS}.*{after['name']}"
            ):
                find_task(before["name"])


def test_successor_gets_changed_defaults(monkeypatch):
    small = find_task(SMALL)
    custom = dataclasses.replace(OWN, config=dataclasses.replace(OWN.config, radar_range_vox=9.0))
    change_rules(monkeypatch)
    for config in (small.successor().config, small.successor().evaluation_config, OWN.successor().config):
        assert (config.rules.step_up_vox, config.radar_range_vox) == (STEP_UP_VOX, RADAR_VOX)
    assert custom.successor().name == "lab/duel-v2" and custom.successor().config.radar_range_vox == 9.0


def test_latest_returns_the_highest_version(registry):
    for number in (9, 10, 2):
        register_task(dataclasses.replace(OWN, name=f"lab/duel-v{number}"))
    assert echelon.latest("lab/duel") == "lab/duel-v10"
    for name in ("small", SMALL, None):
        with pytest.raises(ConfigError, match=r"latest must be one of small-5v5, standard-10v10, .*, got "):
            latest(name)


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
        {"name": "small-5v5-v99"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fingerprint_covers_every_setting(change):
    small = find_task(SMALL)
    assert dataclasses.replace(small, **change).fingerprint != small.fingerprint
    assert dataclasses.replace(small, about="other words").fingerprint == small.fingerprint


def test_evaluation_uses_held_out_maps_and_biomes():
    for name, task in echelon.tasks().items():
        assert task.evaluation_config.map_seed == task.config.map_seed + EVAL_SEED, name
    task = find_task(latest("biomes-5v5"))
    trained, judged = (set(each.world.biomes) for each in (task.config, task.evaluation_config))
    assert not trained & judged and len(judged) == 4 and len(trained | judged) == 16
    by_map = dataclasses.replace(task.evaluation_config, world=task.config.world, map_seed=task.config.map_seed)
    assert by_map == task.config, "no other difference"


def test_task_of_other_rules_raises_with_a_hint(registry):
    for field, other in (("rules_version", RULES_VERSION + 1), ("map_maker", MAP_MAKER_VERSION - 1)):
        task = register_task(dataclasses.replace(OWN, name=f"{field.replace('_', '-')}-v1", **{field: other}))
        assert not task.is_playable and task.name in echelon.tasks()
        for use in (lambda task=task: echelon.make(task.name), lambda task=task: echelon.evaluate("heuristic", task)):
            with pytest.raises(
                ConfigError,
                match=rf"task {task.name} was made for rules .*: install (a newer )?Echelon.*, or .* {SMALL}",
            ):
                use()


def test_user_can_register_a_task(registry):
    assert register_task(OWN) is OWN and register_task(dataclasses.replace(OWN)) == OWN
    assert echelon.tasks()["lab/duel-v1"] == OWN
    env = echelon.make("lab/duel-v1", num_envs=2, seed=0, device="cpu")
    assert env.config == OWN.config and env.n_agents == 1
    with pytest.raises(ConfigError, match=r"lab/duel-v1: another task has this name\. Give a changed task a new"):
        register_task(dataclasses.replace(OWN, protocol=Protocol(battles=4)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Duel-v1"}, "Task.name must be lower-case"),
        ({"name": "duel"}, "Task.name must be lower-case"),
        ({"about": "two\nlines"}, "Task.about must be one line"),
    ],
)
def test_invalid_name_raises_one_line(registry, change, message):
    with pytest.raises(ConfigError, match=message):
        register_task(dataclasses.replace(OWN, **change))
    with pytest.raises(ConfigError, match=r"task must be one of small-5v5-v.*, got 'small'"):
        find_task("small")
    with pytest.raises(ConfigError, match=r"Protocol.battles must be even"):
        Protocol(battles=3)
    for opponents in ("heuristic:easy", (), (3,)):
        with pytest.raises(ConfigError, match=r"Protocol.opponents must be"):
            Protocol(opponents=opponents)
    assert Protocol(opponents=["heuristic:easy"]) == Protocol(opponents=("heuristic:easy",))
    with pytest.raises(ConfigError, match=r"Task.config must be EnvConfig"):
        Task("x-v1", "x", WorldConfig(), *current_versions())
