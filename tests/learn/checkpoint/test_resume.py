"""A resumed run equals an unbroken run bit for bit."""

import dataclasses
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from next_rules import NEXT, OURS, change_rules
from rich.console import Console
from tiny_runs import everything, short_battles, tiny_run

from echelon.env.env import EchelonEnv
from echelon.learn.callbacks.progress import ProgressBar
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import METADATA, Checkpoint, open_checkpoint
from echelon.learn.checkpoint.resume import apply_terrain_diff, terrain_diff
from echelon.learn.config import CurriculumConfig, TrainConfig
from echelon.learn.curriculum import CurriculumState
from echelon.learn.metrics import MEASURED, CsvTable, read_table
from echelon.learn.trainer import Trainer
from echelon.reports.data import config_of
from echelon.reports.run_groups import read_run, with_changes
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.runtime.tensor_files import StateDict
from echelon.state import initial_terrain

STEPS_UP = (1, 4)
"""Iterations before which a fake win rate ends the stage: one before the run stops, one after."""


def rich_run() -> TrainConfig:
    """Return a run with scripted opponents, self-play and snapshots; stages; new maps; six iterations."""
    stages = CurriculumConfig(opponents=("trivial", "easy", "normal"), weapon_use=(0.5, 1.0, 0.75))
    return tiny_run(
        env=dataclasses.replace(tiny_run().env, map_pool=3, map_spares=2),
        opponent="curriculum",
        curriculum=stages,
        num_envs=8,
        self_share=0.25,
        snapshot_opponent_share=0.5,
        past_blocks=2,
        past_every=1,
        past_kept=2,
        renew_maps_every=2,
        total_agent_steps=6 * 400,
        checkpoint_every=3,
    )


def drive(trainer: Trainer, iterations: int) -> Trainer:
    """Train until this number of iterations is done."""
    while trainer.counters.iterations < iterations:
        if trainer.counters.iterations in STEPS_UP:
            trainer.curriculum.state = CurriculumState(trainer.curriculum.state.stage, battles=1000.0, won=1000.0)
        trainer.train(1)
    return trainer


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Read the metrics without wall-clock columns."""
    rows = read_table(folder / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Trainer:
    """The unbroken run. Folder `first` is a copy after one iteration, `third` after three."""
    trainer = drive(Trainer(rich_run(), tmp_path_factory.mktemp("unbroken")), 1)
    trainer.first = {name: value.clone() for name, value in everything(trainer).items()}
    trainer.third = shutil.copytree(drive(trainer, 3).folder, tmp_path_factory.mktemp("third") / "run")
    return drive(trainer, 6)


@pytest.fixture
def stopped(unbroken, tmp_path) -> Path:
    """Folder of a run stopped after three iterations."""
    return shutil.copytree(unbroken.third, tmp_path / "stopped")


@pytest.mark.requirement("R7", "R44")
def test_resumed_run_equals_unbroken_run_bit_for_bit(stopped, unbroken):
    start = open_checkpoint(newest_checkpoint(stopped / "checkpoints"))
    assert start.counters.iterations == 3 and start.curriculum.stage == 1
    second = Trainer(rich_run(), stopped, start)
    assert second.resume_note == "" and second.env.map_pool.renewals == 1
    assert second.opponents.named.slots == ["heuristic:trivial", "heuristic:easy"]
    drive(second, 6)
    assert second.curriculum.state == unbroken.curriculum.state and second.curriculum.state.stage == 2
    assert second.env.map_pool.renewals == unbroken.env.map_pool.renewals == 3
    ours, theirs = everything(second), everything(unbroken)
    assert ours.keys() == theirs.keys() and len(ours) > 200
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name
    for name, part in unbroken._parts().items():
        assert second._parts()[name].state_dict().facts == part.state_dict().facts, name
    assert rows_of(stopped) == rows_of(unbroken.folder)


def test_run_resumes_from_initial_checkpoint(tmp_path, unbroken):
    """Adam has no state before its first step."""
    Trainer(rich_run(), tmp_path).save()
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    assert start.counters.iterations == 0 and start.tensors("learner.safetensors") == {}
    ours, theirs = everything(drive(Trainer(rich_run(), tmp_path, start), 1)), unbroken.first
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], value) for name, value in theirs.items())


@pytest.mark.requirement("R7")
def test_changed_battles_start_anew_with_note(tmp_path, stopped):
    start = open_checkpoint(newest_checkpoint(stopped / "checkpoints"))
    other = dataclasses.replace(rich_run(), snapshot_opponent_share=0.0)
    second = Trainer(other, tmp_path / "other", start)
    assert second.resume_note.startswith("battles start anew: battles.met.heuristic is [0, 6] here and [0, 2] there")
    assert list(second.past.snapshots) == ["iteration 2", "iteration 3"], "snapshots are restored anyway"
    assert second.curriculum.state == start.curriculum
    second.train(1)


def test_resume_under_other_rules_raises(tmp_path, monkeypatch):
    Trainer(rich_run(), tmp_path).save()
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    with monkeypatch.context() as later:
        change_rules(later)
        with pytest.raises(ConfigError) as error:
            Trainer(rich_run(), tmp_path / "other", start)
        says = f"--resume: rules_version must be {NEXT} to continue a run, got {OURS}: evaluate it unchanged"
        assert str(error.value) == f"{says} (arena.py play), or train a new run"
    newer = {**start.metadata, "env": {**start.metadata["env"], "rules_version": NEXT}}
    (start.path / METADATA).write_text(json.dumps(newer))
    with pytest.raises(FileError) as error:
        open_checkpoint(start.path)
    assert (
        str(error.value)
        == f"checkpoint.json: env.rules_version must be at most {OURS}, got {NEXT}: use a newer Echelon"
    )


def test_battles_start_anew_for_other_map_maker(tmp_path):
    Trainer(rich_run(), tmp_path).save()
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    env, battles = start.metadata["env"], start.metadata["battles"]
    maker = env["map_maker"]
    earlier = {"env": {**env, "map_maker": maker - 1}, "battles": {**battles, "map_maker": maker - 1}}
    second = Trainer(rich_run(), tmp_path / "other", dataclasses.replace(start, metadata={**start.metadata, **earlier}))
    says = f"battles start anew: battles.map_maker is {maker} here and {maker - 1} there, in the checkpoint"
    assert second.resume_note == says


def spoil(kept: dict[str, StateDict], part: str, key: str, value: object) -> None:
    """Replace a tensor or a fact by an invalid value."""
    old = kept[part]
    if isinstance(value, torch.Tensor):
        kept[part] = dataclasses.replace(old, tensors={**old.tensors, key: value})
    else:
        kept[part] = dataclasses.replace(old, facts={**old.facts, key: value})


HOSTILE = {
    "map": ("battles", "state.map_id", torch.full((8,), 10**9), r"state.map_id: expected 0..4, got 1000000000"),
    "focus": ("battles", "state.focus_slots", torch.full((8, 10, 5), 10), r"focus_slots: expected -1..9, got 10..10"),
    "shape": (
        "battles",
        "state.tick",
        torch.zeros(7, dtype=torch.int64),
        r"state.tick: expected .* \(8,\), got .* \(7,\)",
    ),
    "NaN": ("battles", "earned", torch.full((10, 7), float("nan")), r"earned: expected finite values"),
    "voxel": (
        "battles",
        "terrain.solid.index",
        torch.tensor([-1]),
        r"changes of solid: expected|solid.index: expected 0",
    ),
    "maps": ("battles", "drawn", [0, 1, 1], r"must name each of 5 maps once"),
    "tier": ("heuristic", "tiers", ["trivial", "godlike"], r"heuristic.tiers must be of .*godlike"),
    "slot": ("frozen", "newest", [0, 7], r"frozen.newest\[1\] must be an integer 0..1, got 7"),
    "draws": ("frozen", "draws", "many", r"frozen.draws must be an integer 0.*, got 'many'"),
    "no snapshots": ("past", "names", [], r"past.names must be a list of 1.*, got \[\]"),
}


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("case", HOSTILE)
def test_invalid_resume_state_raises_one_line(unbroken, case):
    part, key, value, message = HOSTILE[case]
    kept = open_checkpoint(newest_checkpoint(unbroken.folder / "checkpoints")).parts(0)
    spoil(kept, part, key, value)
    with pytest.raises(FileError, match=message) as caught:
        unbroken._parts()[part].load_state_dict(kept[part])
    assert "\n" not in str(caught.value)


@pytest.mark.requirement("R7")
def test_terrain_is_stored_as_difference():
    config = short_battles()
    env = EchelonEnv(config, 3, device="cpu", seed=0)
    terrain, maps = env.state.terrain, env.sim_model.maps
    generator = torch.Generator().manual_seed(0)
    for value in terrain.values():
        where = torch.rand(value.shape, generator=generator) < 0.01
        value ^= where.to(value.dtype) * 37
    found = {key: value.clone() for key, value in terrain_diff(env.state, maps).items()}
    assert 0 < len(found["damage.index"]) < terrain.damage.numel() / 50
    again = apply_terrain_diff(initial_terrain(env.state.map_id, maps), found, "ground")
    for name, value in terrain.items():
        assert torch.equal(again.get(name), value), name
    found["rubble.index"][0] = terrain.rubble.numel()
    with pytest.raises(FileError, match=r"ground: tensor rubble.index: expected 0..\d+, got"):
        apply_terrain_diff(initial_terrain(env.state.map_id, maps), found, "ground")


@pytest.mark.requirement("R7")
def test_incomplete_last_row_is_dropped(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "x"))
    for iteration in (1, 2, 12):
        table.write({"iteration": iteration, "x": 0.5})
    with open(table.path, "r+b") as file:
        file.truncate(table.path.stat().st_size - 7)
    assert table.path.read_bytes().endswith(b"\n1")
    again = CsvTable(table.path, ("iteration", "x"), after_iteration=2)
    assert [row["iteration"] for row in read_table(again.path)] == ["1", "2"]


def newest(trainer: Trainer) -> Checkpoint:
    return open_checkpoint(newest_checkpoint(trainer.folder / "checkpoints"))


def test_settings_that_a_resume_changes_are_listed_with_their_iteration(tmp_path):
    first = Trainer(tiny_run(seed=3, past_every=7), tmp_path / "first")
    first.train(1)
    assert first.changes == [] and "changes" not in newest(first).metadata
    second = Trainer(tiny_run(seed=0, past_every=7, device="auto", threads=1), tmp_path / "second", newest(first))
    assert second.changed == {"seed": (3, 0)}
    second.train(1)
    shorter = tiny_run(seed=0, past_every=9, total_agent_steps=320)
    third = Trainer(shorter, tmp_path / "third", newest(second))
    assert third.changed == {"total_agent_steps": (480, 320), "past_every": (7, 9)}
    assert third.changes == [
        {"since": 2, "setting": "seed", "before": 3},
        {"since": 3, "setting": "total_agent_steps", "before": 480},
        {"since": 3, "setting": "past_every", "before": 7},
    ]
    said = io.StringIO()
    ProgressBar(Console(file=said, width=200)).setup(third)
    assert "past_every: 9 from now on, 7 in the checkpoint" in said.getvalue().splitlines()
    assert (
        "the run is finished: continue with a higher --total-agent-steps or --max-minutes"
        in said.getvalue().splitlines()
    )
    told = {name: value for name, value, _ in config_of(third.config, third.changes)["settings"]}
    assert told["seed"] == "0 since iteration 2, 3 before" and told["past_every"] == "9 since iteration 3, 7 before"
    assert told["past_kept"] == "16"
    assert read_run(second.folder).settings["past_every"] == 7
    third.save()
    third.train(0)
    assert read_run(third.folder).settings["past_every"] == "9 since iteration 3, 7 before"


def test_a_setting_that_changes_twice_shows_each_value():
    changes = [{"since": 13, "setting": "seed", "before": 3}, {"since": 20, "setting": "seed", "before": 5}]
    assert with_changes("seed", 8, changes) == "8 since iteration 20, 5 since iteration 13, 3 before"
    assert with_changes("seed", 5, changes) == "5 since iteration 13, 3 before"
    assert with_changes("past_every", 5, changes) == 5
