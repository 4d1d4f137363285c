"""Populations are data: three disjoint ones, commanders by hash, and a test population that training may not use."""

import dataclasses
import json

import pytest
import torch
from leagues import BRIEF, checkpoint_of

import echelon
from echelon.agents import populations
from echelon.agents.populations import OPPONENT, PARTNER, held_out, names_in, scripted_hash, strangers
from echelon.agents.tiers import STYLES
from echelon.arena.match import battle_seeds
from echelon.arena.resolve import check_opponents, resolve
from echelon.env.tasks.strangers import Strangers, hash_of_seeds, shares_of
from echelon.env.tasks.task import Task
from echelon.learn.config import TrainConfig
from echelon.rules.config_json import as_json, from_json
from echelon.runtime.errors import ConfigError
from echelon.world.authored_maps import maps_of
from echelon.world.splits import placed_seed

SPLITS = ("train", "validation", "test")
FAMILY = [task for task in echelon.tasks().values() if task.strangers is not None]


def test_commander_hashes_match_the_table():
    rows = json.loads(populations.TABLE.read_text())
    assert len(rows) == len(strangers()), "each name once"
    for name, one in strangers().items():
        assert one.sha256 == (scripted_hash(name) or resolve(name).id), name
        assert one.population in SPLITS and set(one.roles) <= {OPPONENT, PARTNER}
    assert {f"style:{name}" for name in STYLES} <= set(names_in("test", OPPONENT)) & set(names_in("test", PARTNER))


def test_hash_depends_on_abilities():
    assert len({scripted_hash(f"style:{name}") for name in STYLES}) == len(STYLES)
    assert scripted_hash("hard") == scripted_hash("heuristic:hard") != scripted_hash("expert")
    assert scripted_hash("trained:quick") is None and scripted_hash("style:dancer") is None


def test_protocol_2_tasks_use_the_current_populations():
    """If this fails, `python docs/tasks.py` creates new versions of the tasks."""
    names = {echelon.latest(task.name.rpartition("-v")[0]) for task in FAMILY}
    assert len(names) == 3
    for task in map(echelon.tasks().__getitem__, names):
        for split, own in task.strangers.splits.items():
            assert own.opponents == names_in(split, OPPONENT) and own.partners == names_in(split, PARTNER)
        seeds = battle_seeds(task.strangers.seed, task.strangers.battles)
        assert task.strangers.seeds_sha256 == hash_of_seeds(seeds), "sealed"
        assert from_json(Strangers, as_json(task.strangers), "strangers") == task.strangers


def test_a_new_row_of_the_table_gives_a_task_a_successor(monkeypatch):
    """A population trained elsewhere is added by one row, one file, and `python docs/tasks.py`."""
    import importlib.util
    from pathlib import Path

    source = importlib.util.spec_from_file_location("tasks_page", Path("docs/tasks.py").resolve())
    program = importlib.util.module_from_spec(source)
    source.loader.exec_module(program)
    task = FAMILY[0]
    assert program.of_today(task) == task
    apart = populations.Stranger("trained:apart", "test", ("partner",), "0" * 64)
    known = {**strangers(), apart.name: apart}
    monkeypatch.setattr(populations, "strangers", lambda: known)
    later = program.of_today(task).successor()
    assert later.name == task.name.replace("-v1", "-v2") and later.fingerprint != task.fingerprint
    assert later.strangers.test.partners == (*task.strangers.test.partners, "trained:apart")
    assert later.strangers.test.opponents == task.strangers.test.opponents
    assert held_out("trained:apart") and held_out("runs/mine", "0" * 64) and not held_out("runs/mine", "1" * 64)


@pytest.mark.parametrize("task", FAMILY, ids=lambda task: task.name)
def test_splits_share_no_team_no_map_and_no_seed(task):
    assert shares_of(5) == (1, 2, 4) and shares_of(10) == (1, 5, 9) and shares_of(2) == (1,)
    rosters = {split: len(own.rosters) for split, own in task.strangers.splits.items()}
    configs = [task.battle(split, number) for split in SPLITS for number in range(rosters[split])]
    assert len({config.blue for config in configs}) == len(configs)
    assert all(config.blue == config.red and config.comm_dim == task.config.comm_dim for config in configs)
    seeds = battle_seeds(task.strangers.seed, 128)
    placed = [{placed_seed(seed, split) for seed in seeds} for split in SPLITS]
    assert not placed[0] & placed[1] and not placed[0] & placed[2] and not placed[1] & placed[2]
    small = [dataclasses.replace(task.battle(split), map_pool=2) for split in SPLITS]
    maps = [set(maps_of(config, torch.device("cpu")).seed.tolist()) for config in small]
    assert len(set.union(*maps)) == 6


def test_training_against_the_test_population_requires_allow_test(tmp_path, monkeypatch):
    """The check works under any name of the weights."""
    path = checkpoint_of(tmp_path, 1)
    config = dataclasses.replace(TrainConfig.quick(), env=BRIEF, opponent=str(path))
    check_opponents(config, torch.device("cpu"))
    apart = populations.Stranger("trained:apart", "test", ("opponent",), resolve(path).id)
    monkeypatch.setattr(populations, "strangers", lambda: {apart.name: apart})
    with pytest.raises(ConfigError, match=r"none from the test population .*or --allow-test, got .*policy_1"):
        check_opponents(config, torch.device("cpu"))
    check_opponents(dataclasses.replace(config, allow_test=True), torch.device("cpu"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"battles": 3}, "Strangers.battles must be even"),
        ({"beside": 130}, "Strangers.beside must be at most Strangers.battles, 128"),
        ({"rosters": (("light",),)}, "rosters must be of equal size, at least 2 mechs"),
        ({"rosters": ()}, "rosters must be non-empty in each split, without an entry that is listed twice"),
        (
            {"opponents": ("heuristic:easy",)},
            "opponents must be non-empty in each split, without an entry that is listed twice, got 'heur",
        ),
    ],
)
def test_invalid_population_is_rejected(change, message):
    own = FAMILY[0].strangers
    with pytest.raises(ConfigError, match=message):
        if change.keys() & {"rosters", "opponents"}:
            change = {"test": dataclasses.replace(own.test, **change)}
        dataclasses.replace(own, **change)


def test_task_without_protocol_2_is_rejected():
    plain: Task = echelon.tasks()[echelon.latest("small-5v5")]
    with pytest.raises(ConfigError, match=r"task small-5v5-v\d+ must be a task with protocol 2"):
        plain.battle("test")
    with pytest.raises(ConfigError, match=r"roster must be 0\.\.2, got 3"):
        FAMILY[0].battle("test", 3)
