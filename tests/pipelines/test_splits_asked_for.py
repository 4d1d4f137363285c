"""`--split` in training, evaluation and matches, and the provenance printed by an evaluation."""

import dataclasses
import json

import pytest
from builders import short_battles
from leagues import policy_of

from echelon.arena.batch_arena import BatchArena
from echelon.env.tasks.task import Protocol, Task
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.checkpoint.provenance import provenance_of
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.train_flags import read_config
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.dataset import WriteDataset
from echelon.pipelines.evaluate import Evaluate
from echelon.pipelines.play import Play
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.world.splits import seed_range

BRIEF = short_battles(4)
PROTOCOL = Protocol(("heuristic:easy", "heuristic:hard"), 2)
TASK = Task("tests/splits-v1", "four decisions", BRIEF, *current_versions(), protocol=PROTOCOL)
HERE = ArenaArgs(device="cpu", batch=4)


def test_training_in_split_test_needs_allow_test():
    assert read_config(["--preset", "quick"]).env.split is None
    assert read_config(["--preset", "quick", "--split", "validation"]).env.split == "validation"
    with pytest.raises(ConfigError, match=r"--split must be train or validation: .*unless --allow-test, got 'test'"):
        read_config(["--split", "test"])
    allowed = read_config(["--split", "test", "--allow-test"])
    assert allowed.env.split == "test" and allowed.allow_test


def test_evaluation_prints_provenance(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("echelon.env.tasks.task._REGISTERED", {TASK.name: TASK})
    provenance = provenance_of(dataclasses.replace(BRIEF, split="train"), ["heuristic:easy"])
    path = tmp_path / "policy"
    save_checkpoint(path, policy_of(1), ValueNorm(), BRIEF, Counters(), {}, provenance=provenance)
    Evaluate(str(path), TASK.name, split="test", arena=HERE).run()
    printed = capsys.readouterr().out
    assert "in training met: battle, heuristic:easy; not met: maps, heuristic:hard\n" in printed
    assert "opponents, seeds or split differ from the task's: the result does not count for the task" in printed
    Evaluate(str(path), TASK.name, json=True, arena=HERE).run()
    told = json.loads(capsys.readouterr().out)
    assert told["split"] is None and told["met"]["maps"] == "unknown" and told["by_protocol"]
    with pytest.raises(ConfigError, match="--split must be left out in a league, got 'test'"):
        Evaluate(str(path), league=tmp_path, split="test", arena=HERE)


def test_matches_and_datasets_are_played_in_a_split(monkeypatch, capsys, tmp_path):
    played = []
    play = BatchArena.play

    def watched(self, battles, *arguments, **sink):
        result = play(self, battles, *arguments, **sink)
        low, high = seed_range(self.config.split)
        seeds = [*self._env.state.seed.tolist(), *self.maps.seed.tolist()]
        played.append(self.config.split == "validation" and all(low <= seed <= high for seed in seeds))
        return result

    monkeypatch.setattr(BatchArena, "play", watched)
    monkeypatch.setattr("echelon.pipelines.battle_args.ENV_PRESETS", {"small": lambda: BRIEF})
    match = Play("heuristic:easy", "heuristic:easy", battles=2, env="small", split="validation", arena=HERE, json=True)
    match.run()
    assert played == [True] and json.loads(capsys.readouterr().out)["battles"] == 2
    kept = {"battles": 2, "env": "small", "split": "validation", "arena": HERE, "quiet": True}
    WriteDataset(("heuristic:easy",), tmp_path / "kept.safetensors", **kept).run()
    assert played == [True, True]
