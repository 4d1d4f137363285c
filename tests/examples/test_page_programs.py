"""Example programs that pages of `docs/` name."""

import changed_observation
import command_by_model
import lstm_on_groups
import own_state
import read_dataset
import torch
import torchrl_trainer
from builders import short_battles

import echelon
from echelon.learn.models.registry import PolicySpecs

BATTLE = short_battles(4)


def test_trainer_of_torchrl_trains():
    trained = torchrl_trainer.main(battles=2, steps=4, minibatch=20)
    assert trained.collected_frames == 2 * 2 * 5 * 4
    assert all(parameter.isfinite().all() for parameter in trained.loss_module.parameters())


def test_trainer_of_torchrl_trains_a_team():
    trained = torchrl_trainer.train_team(battles=2, steps=4, minibatch=4)
    assert trained.collected_frames == 2 * 2 * 4
    assert all(parameter.isfinite().all() for parameter in trained.loss_module.parameters())


def test_lstm_acts_for_each_mech_of_a_group():
    env, policy = lstm_on_groups.make(BATTLE, num_envs=2)
    td = env.rollout(3, policy)
    mechs = td["agents", "action"].shape[2]
    assert td["agents", "memory", "h"].shape == (2, 3, mechs, 1, 16) and td["agents", "memory", "h"][:, 1].any()


def test_own_network_acts():
    network = own_state.Config().build(PolicySpecs(BATTLE.comm_dim))
    env = echelon.versus(BATTLE, num_envs=2, observation="structured", memory=network.memory_spec())
    td = env.rollout(3, network.get_policy_operator("agents"))
    assert td["agents", "action"].shape[-1] == 18 + BATTLE.comm_dim and td["agents", "action"].isfinite().all()


def test_model_commands_without_refused_orders():
    assert command_by_model.main() == [[], [], [], []]


def test_changed_observation_changes_actions():
    hot, change = changed_observation.main()
    assert hot > 0 and change > 0


def test_dataset_is_read_in_each_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shapes = read_dataset.main(tmp_path / "few.safetensors")
    assert shapes["winner"] == (4,) and shapes["ego"][1:] == (5, 69) and shapes["done"][1:] == (26,)
    assert shapes["next"][:2] == (32, 5) and shapes["slices"] == torch.Size([64, 5, 26])
