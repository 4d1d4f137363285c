"""Prioritised level replay: maps with high learnability are drawn more often."""

import dataclasses

import pytest
import torch
from tensordict import TensorDict
from tiny_runs import everything, tiny_run

from echelon.env.outcome import Winner
from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import CurriculumConfig
from echelon.learn.levels import LevelScores
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

PLR = CurriculumConfig(map_sampling="plr")


class Memoryless:
    def memory_spec(self):
        return {}


def scores_of(maps=3, itself=2):
    """Six battles against an opponent and two in self-play, with the learner as blue in the first three."""
    groups = [OpponentGroup("opponent", Memoryless(), 6), OpponentGroup("itself", None, itself)]
    return LevelScores(torch.arange(maps), PolicyAssignment(Memoryless(), groups))


def ended(winners):
    winner = torch.tensor(winners, dtype=torch.int8)[:, None]
    return TensorDict({"done": winner >= 0, "outcome": {"winner": winner}}, [len(winners)])


BLUE, RED, RUNNING, DRAW = int(Winner.BLUE), int(Winner.RED), int(Winner.RUNNING), int(Winner.DRAW)


@pytest.mark.requirement("R54")
def test_wins_are_counted_per_map():
    scores = scores_of()
    maps = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    scores.count(maps, ended([BLUE, RED, BLUE, RED, DRAW, RUNNING, BLUE, RED]))
    assert scores.tensors["ended"].tolist() == [[2, 2, 1], [2, 0, 1]], "blue, then red; without self-play"
    scores.update(torch.tensor([0, 1, 7]))
    assert scores.tensors["kept"].tolist() == [[2, 2, 0], [2, 0, 0]], "the third map was replaced"
    assert scores.tensors["ended"].sum() == 0 and scores.tensors["idle"].tolist() == [0, 0, 0]
    assert scores.learnability().tolist() == pytest.approx([3 / 16, 3 / 16, 1 / 4])
    scores.update(torch.tensor([0, 1, 7]))
    assert scores.tensors["idle"].tolist() == [1, 1, 1]


def test_older_battles_are_discounted():
    scores = scores_of()
    scores.tensors["kept"].copy_(torch.tensor([[32.0, 31, 8], [32, 31, 8]]))
    scores.count(torch.zeros(8, dtype=torch.int64), ended([RED, RED, RED, BLUE, BLUE, BLUE, BLUE, BLUE]))
    scores.update(torch.arange(3))
    assert scores.tensors["kept"].tolist() == [[22, 31, 8], [16, 31, 8]]


def test_map_shares_combine_score_staleness_and_uniform():
    scores, active = scores_of(), torch.tensor([0, 1, 1])
    assert scores.weights(active, 0.1, 0.1).tolist() == pytest.approx([1 / 3] * 3), "three maps without battles"
    scores.tensors["idle"].copy_(torch.tensor([0.0, 2, 9]))
    assert scores.weights(active, 0.3, 0.6).tolist() == pytest.approx([0.4 / 3, 1.3 / 3, 1.3 / 3])
    assert scores.weights(active, 0.0, 1.0).tolist() == [0, 0.5, 0.5]


def three_maps(**changes):
    env = dataclasses.replace(tiny_run().env, map_pool=3)
    return tiny_run(**{"env": env, "curriculum": PLR, "total_agent_steps": 10**6, **changes})


def shares(trainer):
    drawn = trainer.env.map_pool.map_slots
    return [float((drawn == index).float().mean()) for index in range(3)]


class Made(Callback):
    """Fakes results: the first map is always won, the second never, the third in half of the battles."""

    def on_iteration_end(self, trainer, metrics):
        trainer.levels.tensors["ended"].copy_(torch.tensor([[8.0, 8, 8], [8, 0, 4]]))


@pytest.mark.requirement("R54")
def test_map_with_win_rate_one_half_is_drawn_most(tmp_path):
    trainer = Trainer(three_maps(), tmp_path, callbacks=[Made()])
    assert shares(trainer) == pytest.approx([1 / 3] * 3, abs=0.01)
    slots = trainer.env.map_pool.map_slots
    trainer.train(4)
    won, lost, half = shares(trainer)
    assert won == pytest.approx(lost, abs=0.01) and half > 3 * won and won > 0.06
    assert trainer.env.map_pool.map_slots is slots, "a captured graph reads this tensor"
    next(one for one in trainer.callbacks.all if one.name == "LevelReplay").on_stage(trainer)
    assert shares(trainer) == pytest.approx([1 / 3] * 3, abs=0.01), "a new commander resets the scores"


def test_battles_of_a_run_are_counted(tmp_path):
    trainer = Trainer(three_maps(), tmp_path)
    reports = []
    for _ in range(3):
        trainer.iterate()
        reports.append(float(trainer.collector.episode_stats["battles"]))
    assert sum(reports) > 0 and float(trainer.levels.tensors["ended"][0].sum()) == sum(reports)


def test_uniform_levels_keep_no_scores(tmp_path):
    trainer = Trainer(three_maps(curriculum=CurriculumConfig()), tmp_path)
    trainer.train(2)
    pool = trainer.env.map_pool
    assert trainer.levels is None and not pool.is_weighted
    assert pool.map_slots.tolist() == pool.active.tolist() * 342
    assert "LevelReplay" not in [callback.name for callback in trainer.callbacks.all]
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints")).parts(0)["battles"]
    assert "weighted" not in start.facts and not any(key.startswith("levels") for key in start.tensors)


@pytest.mark.requirement("R54")
def test_plr_run_resumes_bit_for_bit(tmp_path):
    env = dataclasses.replace(three_maps().env, map_spares=1)
    config = three_maps(env=env, renew_maps_every=1)
    whole = Trainer(config, tmp_path / "whole")
    whole.train(4)
    Trainer(config, tmp_path / "parts").train(2)
    start = open_checkpoint(newest_checkpoint(tmp_path / "parts" / "checkpoints"))
    again = Trainer(config, tmp_path / "parts", start)
    assert again.resume_note == "" and again.env.map_pool.is_weighted
    again.train(2)
    ours, theirs = everything(whole), everything(again)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert any(name.startswith("battles.levels.") for name in ours)
    assert whole.env.map_pool.map_slots.tolist() == again.env.map_pool.map_slots.tolist()
    assert set(whole.env.map_pool.map_slots.tolist()) <= set(whole.env.map_pool.active.tolist())
    uniform = dataclasses.replace(config, curriculum=CurriculumConfig())
    start = open_checkpoint(newest_checkpoint(tmp_path / "parts" / "checkpoints"))
    assert not Trainer(uniform, tmp_path / "parts", start).env.map_pool.is_weighted
    hostile = start.parts(0)["battles"]
    for key, value, said in (
        ("levels.kept", torch.tensor([[1.0] * 4, [2.0] * 4]), "not more wins than battles"),
        ("levels.idle", torch.zeros(9), "idle"),
    ):
        changed = dataclasses.replace(hostile, tensors={**hostile.tensors, key: value})
        with pytest.raises(FileError, match=said):
            again._parts()["battles"].load_state_dict(changed)
    changed = dataclasses.replace(hostile, facts={**hostile.facts, "weighted": [9] * len(again.env.map_pool.map_slots)})
    with pytest.raises(FileError, match=r"weighted must name maps of"):
        again._parts()["battles"].load_state_dict(changed)


class Third(Callback):
    """A custom curriculum."""

    def on_run_start(self, trainer):
        trainer.env.map_pool.set_weights([0, 0, 1])


def test_custom_map_weights_are_restored(tmp_path):
    config = three_maps(curriculum=CurriculumConfig())
    Trainer(config, tmp_path, callbacks=[Third()]).train(1)
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    assert shares(Trainer(config, tmp_path, start)) == [0, 0, 1]


def test_invalid_level_settings_raise():
    with pytest.raises(
        ConfigError, match=r"CurriculumConfig.map_sampling_uniform must be <= 1 - map_sampling_stale \(0.5\)"
    ):
        CurriculumConfig(map_sampling="plr", map_sampling_uniform=0.6, map_sampling_stale=0.5)
    with pytest.raises(ConfigError, match=r"CurriculumConfig.map_sampling must be uniform in pure self-play"):
        tiny_run(curriculum=PLR, opponent="self")
