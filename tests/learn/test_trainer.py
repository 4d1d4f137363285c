"""A whole training run: logging, checkpoints, resume."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from tiny_runs import TINY, run_to_the_end, short_battles, tiny_run

from echelon.agents.heuristic import scripted
from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import LEARNER, Checkpoint, open_checkpoint
from echelon.learn.checkpoint.resume import restore_optimizer
from echelon.learn.config import CurriculumConfig, PPOConfig
from echelon.learn.curriculum import CurriculumState
from echelon.learn.metrics import COLUMNS, read_metrics
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.snapshot_pool import Weights
from echelon.learn.ppo.nonfinite_dump import NotFinite
from echelon.learn.ppo.update import PATIENCE
from echelon.learn.schedules import Schedule
from echelon.learn.trainer import Trainer
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Trainer:
    """A finished run."""
    return run_to_the_end(Trainer(tiny_run(), tmp_path_factory.mktemp("run")))


def end_of(trainer: Trainer) -> Checkpoint:
    """Return the newest checkpoint."""
    return open_checkpoint(newest_checkpoint(trainer.folder / "checkpoints"))


def test_a_run_writes_metrics_and_checkpoints(done):
    # 4 battles x 5 learner mechs x 8 decisions = 160 agent steps per iteration, so three iterations.
    rows = read_metrics(done.folder / "metrics.csv")
    assert [row["agent_steps"] for row in rows] == [160, 320, 480]
    assert set(rows[-1]) <= set(COLUMNS)
    assert sorted(p.name for p in (done.folder / "checkpoints").iterdir()) == [
        f"iteration_{number:06d}" for number in (0, 2, 3)
    ]
    loaded = end_of(done)
    assert loaded.counters.agent_steps == 480
    for name, value in done.policy.state_dict().items():
        assert torch.equal(loaded.policy().state_dict()[name], value)


def test_maps_are_renewed_between_iterations(tmp_path):
    env = dataclasses.replace(tiny_run().env, map_spares=1)
    trainer = run_to_the_end(Trainer(tiny_run(env=env, renew_maps_every=2), tmp_path))
    assert trainer.env.map_pool.renewals == 1 and trainer.env.map_pool.active.tolist() == [2, 1]
    with pytest.raises(ConfigError, match=r"TrainConfig.env.map_spares must be >= 1 to renew maps, got 0"):
        tiny_run(renew_maps_every=2)


@pytest.mark.requirement("R7")
def test_resume_restores_weights_optimiser_counters_and_metrics(tmp_path, done):
    folder = tmp_path / "copy"
    shutil.copytree(done.folder, folder)
    second = Trainer(tiny_run(total_agent_steps=640), folder, end_of(done))
    for a, b in zip(done.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    names = dict(done.policy.named_parameters())
    for name, parameter in second.policy.named_parameters():
        ours, theirs = second.ppo.optimizer.state[parameter], done.ppo.optimizer.state[names[name]]
        assert all(torch.equal(ours[key], theirs[key]) for key in ("step", "exp_avg", "exp_avg_sq"))
    run_to_the_end(second)
    assert [row["iteration"] for row in read_metrics(folder / "metrics.csv")] == [1, 2, 3, 4]


@pytest.mark.requirement("R9")
def test_resume_with_other_battle_names_the_field(tmp_path, done):
    other = dataclasses.replace(tiny_run().env, radar_range_vox=9.0)
    with pytest.raises(ConfigError, match=r"env.radar_range_vox is 9.0 here and 14.0 there, in the checkpoint"):
        Trainer(tiny_run(env=other), tmp_path / "other", end_of(done))


def test_self_play_learns_from_both_teams(tmp_path: Path):
    trainer = Trainer(tiny_run(opponent="self", total_agent_steps=1), tmp_path)
    run_to_the_end(trainer)
    assert trainer.counters.agent_steps == 2 * 160


def test_invalid_device_and_opponent_names_raise():
    with pytest.raises(ConfigError, match="device must be auto, cpu, cuda or cuda:N, got 'abacus'"):
        resolve_device("abacus")
    with pytest.raises(ConfigError, match="CUDA GPUs, got 'cuda:99'"):
        resolve_device("cuda:99")
    with pytest.raises(ConfigError, match=r"trivial\|easy\|normal\|hard\|expert, got 'heuristic:godlike'"):
        scripted("heuristic:godlike", short_battles(), torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"minibatches \* PPOConfig.accumulate must be <= 8 .*, got 9"):
        tiny_run(ppo=PPOConfig(minibatches=9))


def test_battle_shares_must_be_whole_numbers():
    half = tiny_run(opponent="self", num_envs=8, snapshot_opponent_share=0.5, past_blocks=2)
    assert (half.self_battles, half.past_battles, half.scripted_battles) == (4, 4, 0)
    with pytest.raises(
        ConfigError, match=r"snapshot_opponent_share must be a share .* of 4 .* battles, got '2 battles'"
    ):
        tiny_run(num_envs=8, snapshot_opponent_share=0.25, past_blocks=2)
    with pytest.raises(ConfigError, match=r"self_share must be <= 1 - snapshot_opponent_share, got 0.75"):
        tiny_run(num_envs=8, self_share=0.75, snapshot_opponent_share=0.5, past_blocks=2)


@pytest.mark.requirement("R5")
def test_invalid_optimiser_tensors_raise(tmp_path, done):
    tensors = end_of(done).tensors(LEARNER)
    tensors["optimizer.critic.value.bias.exp_avg"][0] = float("nan")
    trainer = Trainer(tiny_run(), tmp_path / "other")
    with pytest.raises(FileError, match=r"exp_avg: expected finite values"):
        restore_optimizer(trainer.policy, trainer.ppo.optimizer, tensors)


def test_the_same_seed_trains_the_same_policy(tmp_path, done):
    again = run_to_the_end(Trainer(tiny_run(), tmp_path))
    for a, b in zip(done.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.requirement("R54")
def test_next_stage_applies_to_new_battles(tmp_path):
    stages = CurriculumConfig(opponents=("trivial", "easy"), weapon_use=(0.5, 1.0), advance_at_win_rate=0.5, window=1)
    config = tiny_run(opponent="curriculum", curriculum=stages, total_agent_steps=160 * 6)
    trainer = Trainer(config, tmp_path)
    env, scripted_rivals = trainer.env, trainer.opponents.named
    trainer.curriculum.state = CurriculumState(battles=100.0, won=100.0)
    run_to_the_end(trainer)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert rows[0]["stage"] == 1 and rows[-1]["stage"] == 2
    assert rows[0]["weapon_use"] == 0.5 and rows[-1]["weapon_use"] == 1.0
    assert trainer.env is env and trainer.opponents.named is scripted_rivals, "the battles continue"
    assert scripted_rivals.slots[scripted_rivals.newest] == "heuristic:easy"
    assert open_checkpoint(newest_checkpoint(tmp_path / "checkpoints")).curriculum.stage == 1


@pytest.mark.requirement("R7")
def test_stage_with_other_battles_recreates_env_also_after_resume(tmp_path):
    stages = CurriculumConfig(
        opponents=("easy",), team_size=(2, 5), difficulty=(0.0, 1.0), advance_at_win_rate=0.5, window=1
    )
    config = tiny_run(opponent="curriculum", curriculum=stages, total_agent_steps=300)
    trainer = Trainer(config, tmp_path)
    assert len(trainer.env.config.blue) == 2 and trainer.env.config.world.difficulty == 0
    trainer.curriculum.state = CurriculumState(battles=100.0, won=100.0)
    run_to_the_end(trainer)
    assert len(trainer.env.config.blue) == 5 and trainer.env.config.world.difficulty == 1
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    assert start.metadata["env"]["blue"] == list(config.env.blue), "the run's config, independent of the stage"
    assert len(Trainer(config, tmp_path / "other", start).env.config.blue) == 5


@pytest.mark.requirement("R54")
def test_reward_weights_follow_their_schedules(tmp_path):
    schedules = CurriculumConfig(approach=Schedule(1.0, 0.0), team_mix=Schedule(2.0, 0.0))
    trainer = run_to_the_end(Trainer(tiny_run(curriculum=schedules), tmp_path))
    # The last of three iterations starts at two thirds of the run.
    assert abs(trainer.collector.scale[0].item() - 1 / 3) < 1e-6 and trainer.collector.scale[1] == 1
    mixes = [row["team_mix"] for row in read_metrics(tmp_path / "metrics.csv")]
    assert mixes[0] == 1.0 and abs(mixes[-1] - 1 / 3) < 1e-6


def test_learner_plays_against_its_snapshots(tmp_path):
    config = tiny_run(opponent="past", past_blocks=2, past_every=1, past_kept=2, self_share=0.0, total_agent_steps=800)
    trainer = run_to_the_end(Trainer(config, tmp_path))
    assert list(trainer.past.shares) == ["iteration 4", "iteration 5"]
    assert {name for pair in trainer.opponents.frozen.names for name in pair} - {"iteration 0"}
    assert any("past_win_rate" in row for row in read_metrics(tmp_path / "metrics.csv"))


def test_opponents_share_battles_and_pool_can_be_custom(tmp_path):
    class Strangers:
        shares: ClassVar = {"stranger": 1.0}

        def weights_of(self, name: str) -> Weights:
            return TINY.build(PolicySpecs(8)).state_dict()

    config = tiny_run(num_envs=8, self_share=0.25, snapshot_opponent_share=0.5, past_blocks=2)
    trainer = Trainer(config, tmp_path, opponent_pool=Strangers())
    places = {name: battles.stop - battles.start for name, battles in trainer.opponents.assignment.battles.items()}
    assert places == {"heuristic": 2, "itself": 2, "past": 4}
    trainer.train(1)
    assert trainer.opponents.frozen.names == [["stranger"] * 2] * 2
    assert trainer.counters.agent_steps == (2 + 4 + 4) * 5 * 8


@pytest.mark.requirement("R43")
def test_nonfinite_loss_stops_run_with_dump(tmp_path):
    trainer = Trainer(
        tiny_run(ppo=PPOConfig(rollout_decisions=8, chunk_decisions=4, epochs=2, minibatches=2)), tmp_path
    )
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    trainer.curriculum.reward_scale = lambda *_: [float("nan")] * 7
    with pytest.raises(NotFinite, match=rf"in {PATIENCE} consecutive steps: see .*not_finite_000000.json"):
        trainer.train(1)
    for name, value in trainer.policy.state_dict().items():
        assert torch.equal(value, before[name])
    told = json.loads((tmp_path / "not_finite_000000.json").read_text())["not finite"]
    assert told["rollout"]["next.reward"] == 160 and sum(told["weights"].values()) == 0
    assert (tmp_path / "not_finite_000000.safetensors").exists()


def test_run_ends_at_max_minutes(tmp_path):
    trainer = Trainer(tiny_run(total_agent_steps=10**9, max_minutes=1e-6), tmp_path)
    trainer.train(1)
    assert trainer.finished and trainer.progress == 1.0


@pytest.mark.requirement("R47")
def test_deterministic_setting_applies_during_training_only(tmp_path):
    class Notes(Callback):
        def on_iteration_end(self, trainer, metrics):
            seen.append((torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark))

    before = torch.backends.cudnn.benchmark
    for deterministic in (True, False):
        seen = []
        Trainer(tiny_run(deterministic=deterministic), tmp_path / str(deterministic), callbacks=[Notes()]).train(1)
        assert seen == [(deterministic, not deterministic)]
        assert not torch.are_deterministic_algorithms_enabled() and torch.backends.cudnn.benchmark == before


@pytest.mark.long
def test_policy_learns_to_approach_the_zone(tmp_path):
    """Within about forty thousand agent steps, the approach reward moves mechs towards the zone."""
    env = short_battles()
    reward = dataclasses.replace(env.reward, approach=10.0, terminal=0.0, gamma=0.99)
    config = tiny_run(
        env=dataclasses.replace(env, reward=reward),
        ppo=PPOConfig(rollout_decisions=12, chunk_decisions=12, learning_rate=Schedule(1e-3, 1e-3), minibatches=2),
        num_envs=32,
        total_agent_steps=60_000,
        checkpoint_every=10**6,
    )
    run_to_the_end(Trainer(config, tmp_path))
    returns = [row["return"] for row in read_metrics(tmp_path / "metrics.csv") if "return" in row]
    assert sum(returns[-5:]) / 5 > sum(returns[:5]) / 5 + 0.3
