"""Example programs from TorchRL components or the learner's components learn in Echelon."""

import dataclasses
import math
import re

import clone_hard
import lstm_mechs
import maddpg
import mappo
import mappo_classes
import named_task
import own_loop
import own_position
import plan_by_forks
import pytest
import qmix
import torch
import train_commander
from brief_tasks import make_tasks_brief
from builders import short_battles

from echelon.agents.heuristic import scripted
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.datasets.dataset import DatasetWriter
from echelon.env.reward import TERMS
from echelon.env.tasks.task import latest
from echelon.rules.config import RewardConfig

BATTLE = short_battles(4)
UNPAID = dataclasses.replace(BATTLE, reward=RewardConfig(**dict.fromkeys(TERMS, 0.0)))
SIZES = {"num_envs": 2, "steps": 8}


@pytest.mark.parametrize(
    ("example", "sizes"),
    [
        (mappo, {"epochs": 2}),
        pytest.param(mappo_classes, {"epochs": 2}, marks=pytest.mark.long),
        (lstm_mechs, {"epochs": 2}),
        (own_loop, {"epochs": 2}),
        pytest.param(maddpg, {"updates": 3}, marks=pytest.mark.long),
        (qmix, {"updates": 3}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_example_learns_from_rewards(example, sizes):
    """Every weight of the policy changes, and differs from training without rewards."""
    before, _ = example.main(BATTLE, **SIZES, **sizes, iterations=0)
    after, history = example.main(BATTLE, **SIZES, **sizes, iterations=2)
    unpaid, _ = example.main(UNPAID, **SIZES, **sizes, iterations=2)
    assert len(history) == 2
    for logged in history:
        assert all(math.isfinite(value) for value in logged.values()), logged
        assert all(value for name, value in logged.items() if name.endswith("reward")), logged
    first, last, other = (dict(policy.named_parameters()) for policy in (before, after, unpaid))
    assert first and all(not torch.equal(first[name], last[name]) for name in first)
    assert not all(torch.equal(other[name], last[name]) for name in first)


def test_commander_learns_and_is_evaluated():
    torch.manual_seed(0)
    env = train_commander.make(2, 0, "train")
    actor, critic = train_commander.networks(env)
    before = [parameter.clone() for part in (actor, critic) for parameter in part.parameters()]
    assert len(list(train_commander.train(env, actor, critic, iterations=1, steps=4, epochs=1))) == 1
    after = [parameter for part in (actor, critic) for parameter in part.parameters()]
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert 0 <= train_commander.wins(train_commander.make(2, 1, "validation"), actor) <= 2


def test_position_is_played_with_many_seeds():
    found = own_position.main(seeds=2)
    assert [result.battles for result in found.results.values()] == [4] and len(found.seeds) == 2


def test_fork_planning_runs():
    """The README states its effect."""
    won = plan_by_forks.main(battles=2, branches=6, ahead=4, config=BATTLE)
    assert len(won) == 2 and all(0 <= count <= 2 for count in won)


def test_commander_is_cloned(tmp_path):
    """`docs/DATASETS.md` states its strength."""
    names, path, cpu = ("heuristic:hard", "heuristic:easy"), tmp_path / "hard.safetensors", torch.device("cpu")
    arena = BatchArena(BATTLE, lambda name: scripted(name, BATTLE, cpu), ArenaConfig(cpu, 8))
    with DatasetWriter(path, BATTLE, names) as writer:
        arena.play([Battle(*names, seed) for seed in range(8)], sink=writer)
    result, errors = clone_hard.main(path, steps=200, battles=2)
    assert result.battles == 2 and sum(errors[-20:]) < sum(errors[:20]) / 2


def test_named_task_runs_end_to_end(capsys, monkeypatch):
    """Create the task by name, train two iterations, and print the table row."""
    make_tasks_brief(monkeypatch)
    sizes = {"num_envs": 2, "steps": 8, "opponents": ["heuristic:easy"], "battles": 2}
    torch.manual_seed(0)
    before = named_task.main(**sizes, iterations=0)
    torch.manual_seed(0)
    after = named_task.main(**sizes, iterations=2)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2
    for row in rows:
        assert re.fullmatch(rf"\| {latest('small-5v5')} \| policy \| heuristic:easy \d+% \(\d+% to \d+%\) \|", row), row
    moved = [not torch.equal(*pair) for pair in zip(before.parameters(), after.parameters(), strict=True)]
    assert moved and all(moved)
