"""A run as a whole: it goes on where it stopped, and says what it did."""

import dataclasses
from pathlib import Path

import pytest
import torch
from conftest import TINY, short_battles

from echelon.agents.heuristic import scripted
from echelon.config import ConfigError
from echelon.files import FileError
from echelon.learn import checkpoint
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.machine import resolve_device
from echelon.learn.metrics import COLUMNS, read_metrics
from echelon.learn.trainer import Trainer


def tiny_run(**changes: object) -> TrainConfig:
    config = TrainConfig(
        env=dataclasses.replace(short_battles(), map_pool=2),
        model=TINY,
        ppo=PPOConfig(rollout_decisions=8, epochs=1, minibatches=2),
        num_envs=4,
        total_agent_steps=480,
        device="cpu",
        compiled=False,
        checkpoint_every=2,
    )
    return dataclasses.replace(config, **changes)


def run_to_the_end(trainer: Trainer) -> Trainer:
    """Iterate until the run has learnt from as many steps as it was told to."""
    while not trainer.finished:
        trainer.iterate()
    trainer.metrics.close()
    return trainer


def test_a_run_writes_metrics_and_checkpoints(tmp_path):
    # 4 battles x 5 learner mechs x 8 decisions = 160 agent steps an iteration, so three iterations.
    trainer = run_to_the_end(Trainer(tiny_run(), tmp_path))
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["agent_steps"] for row in rows] == [160, 320, 480]
    assert set(rows[-1]) <= set(COLUMNS)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["iteration_000002", "iteration_000003"]
    loaded = checkpoint.open_checkpoint(checkpoint.newest(tmp_path / "checkpoints"))
    assert loaded.counters.agent_steps == 480
    for name, value in trainer.policy.state_dict().items():
        assert torch.equal(loaded.policy().state_dict()[name], value)


def test_maps_are_renewed_between_iterations(tmp_path):
    env = dataclasses.replace(tiny_run().env, map_spares=1)
    trainer = run_to_the_end(Trainer(tiny_run(env=env, renew_maps_every=2), tmp_path))
    assert trainer.env.atlas.renewals == 1 and trainer.env.atlas.drawn.tolist() == [2, 1]
    with pytest.raises(ConfigError, match=r"TrainConfig.env.map_spares must be >= 1 to renew maps, got 0"):
        tiny_run(renew_maps_every=2)


def test_resume_goes_on_with_weights_optimiser_counters_and_metrics(tmp_path):
    first = run_to_the_end(Trainer(tiny_run(), tmp_path))
    start = checkpoint.open_checkpoint(checkpoint.newest(tmp_path / "checkpoints"))
    second = Trainer(tiny_run(total_agent_steps=640), tmp_path, start)
    for a, b in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    names = dict(first.policy.named_parameters())
    for name, parameter in second.policy.named_parameters():
        ours, theirs = second.ppo.optimizer.state[parameter], first.ppo.optimizer.state[names[name]]
        assert all(torch.equal(ours[key], theirs[key]) for key in ("step", "exp_avg", "exp_avg_sq"))
    run_to_the_end(second)
    assert [row["iteration"] for row in read_metrics(tmp_path / "metrics.csv")] == [1, 2, 3, 4]


def test_resuming_another_battle_is_refused_naming_the_field(tmp_path):
    run_to_the_end(Trainer(tiny_run(), tmp_path))
    start = checkpoint.open_checkpoint(checkpoint.newest(tmp_path / "checkpoints"))
    other = dataclasses.replace(tiny_run().env, radar_range_vox=9.0)
    with pytest.raises(ConfigError, match=r"env.radar_range_vox is 9.0 here and 14.0 there, in the checkpoint"):
        Trainer(tiny_run(env=other), tmp_path / "other", start)


def test_self_play_learns_from_both_teams(tmp_path: Path):
    trainer = Trainer(tiny_run(opponent="self", total_agent_steps=1), tmp_path)
    run_to_the_end(trainer)
    assert trainer.counters.agent_steps == 2 * 160


def test_names_of_devices_and_opponents_are_checked():
    with pytest.raises(ConfigError, match="device must be auto, cpu, cuda or cuda:N, got 'abacus'"):
        resolve_device("abacus")
    with pytest.raises(ConfigError, match="CUDA GPUs, got 'cuda:99'"):
        resolve_device("cuda:99")
    with pytest.raises(ConfigError, match=r"trivial\|easy\|normal\|hard\|expert, got 'heuristic:godlike'"):
        scripted("heuristic:godlike", short_battles(), torch.device("cpu"))
    with pytest.raises(ConfigError, match="minibatches must be <= 20"):
        tiny_run(ppo=PPOConfig(minibatches=21))


def test_optimiser_tensors_are_checked(tmp_path):
    run_to_the_end(Trainer(tiny_run(), tmp_path))
    start = checkpoint.open_checkpoint(checkpoint.newest(tmp_path / "checkpoints"))
    tensors = start.tensors(checkpoint.LEARNER)
    tensors["optimizer.critic.module.bias.exp_avg"][0] = float("nan")
    trainer = Trainer(tiny_run(), tmp_path / "other")
    with pytest.raises(FileError, match=r"exp_avg: expected finite values"):
        checkpoint.restore_optimizer(trainer.policy, trainer.ppo.optimizer, tensors)


def test_the_same_seed_trains_the_same_policy(tmp_path):
    one, two = (run_to_the_end(Trainer(tiny_run(), tmp_path / name)) for name in ("one", "two"))
    for a, b in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_learning_to_walk_to_the_zone(tmp_path):
    """Within some forty thousand agent steps, mechs that were paid for nearing the zone near it."""
    env = short_battles()
    reward = dataclasses.replace(env.reward, approach=10.0, terminal=0.0, gamma=0.99)
    config = tiny_run(
        env=dataclasses.replace(env, reward=reward),
        ppo=PPOConfig(rollout_decisions=12, learning_rate=1e-3, minibatches=2),
        num_envs=32,
        total_agent_steps=60_000,
        checkpoint_every=10**6,
    )
    run_to_the_end(Trainer(config, tmp_path))
    returns = [row["return"] for row in read_metrics(tmp_path / "metrics.csv") if "return" in row]
    assert sum(returns[-5:]) / 5 > sum(returns[:5]) / 5 + 0.3
