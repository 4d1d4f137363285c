"""Runs with authored positions resume bit for bit, and invalid checkpoints of them raise."""

import dataclasses

import pytest
import torch
from tiny_runs import everything, short_battles, tiny_run

import echelon
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def positions(x=8.0):
    scenes = [echelon.Scene(short_battles()).wall((19, 10), (21, 30), height) for height in (2, 5)]
    for place, scene in zip((14, x), scenes, strict=True):
        scene.place("blue", "medium", at=(place, 20)).place("red", "light", at=(30, 20), facing_deg=180)
    return echelon.scene_config([scene.scenario for scene in scenes], (3, 1))


def drive(trainer, iterations):
    trainer.train(iterations - trainer.counters.iterations)
    return trainer


def test_run_resumes_with_drawn_positions(tmp_path):
    config = tiny_run(env=positions(), total_agent_steps=10**6)
    whole = drive(Trainer(config, tmp_path / "whole"), 4)
    assert whole.env.map_pool.active.tolist() == [0, 0, 0, 1]
    drive(Trainer(config, tmp_path / "parts"), 2)
    start = open_checkpoint(newest_checkpoint(tmp_path / "parts" / "checkpoints"))
    assert start.env == config.env, "the checkpoint contains the positions"
    again = Trainer(config, tmp_path / "parts", start)
    assert again.resume_note == ""
    ours, theirs = everything(whole), everything(drive(again, 4))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    start = open_checkpoint(newest_checkpoint(tmp_path / "parts" / "checkpoints"))
    with pytest.raises(ConfigError, match=r"--resume: env.positions\[1\].units\[0\].x is 9.0 here and 8.0 there"):
        Trainer(dataclasses.replace(config, env=positions(9.0)), tmp_path / "parts", start)
    pool = whole.env.map_pool
    with pytest.raises(ConfigError, match=r"^map_seeds must be those of the given positions"):
        pool.restore(torch.tensor([0, 7]), pool.active.tolist(), [], 0, 0)


def test_invalid_positions_in_checkpoint_raise(tmp_path):
    trainer = Trainer(tiny_run(env=positions()), tmp_path / "run")
    found = open_checkpoint(trainer.save())
    for change, said in (
        ({"positions": [{}]}, r"env.positions\[0\] must be complete: this Position lacks units"),
        ({"positions": "x"}, r"env.positions must be a list"),
        ({"blue": ["scout"]}, r"blue of EnvConfig.positions\[0\] must be scout, the mechs of the battle"),
    ):
        metadata = {**found.metadata, "env": {**found.metadata["env"], **change}}
        with pytest.raises((FileError, ConfigError), match=said) as caught:
            _ = dataclasses.replace(found, metadata=metadata).env
        assert "\n" not in str(caught.value)
