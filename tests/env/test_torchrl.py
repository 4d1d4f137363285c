"""A plain TorchRL program trains a group with TorchRL's own parts."""

import dataclasses

import torch
from builders import flat_maps
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives.multiagent import MAPPOLoss

from echelon import EchelonEnv, EnvConfig
from echelon.env.observation import layout

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)
EGO = ("observation", "ego")


def test_mappo_learns_from_a_group():
    torch.manual_seed(0)
    env = EchelonEnv(CONFIG, 3, device="cpu", seed=0, maps=flat_maps(CONFIG))
    sums = [(g, "episode_reward") for g in ("blue", "red")]
    env = TransformedEnv(env, RewardSum(in_keys=[("blue", "reward"), ("red", "reward")], out_keys=sums))
    features, width = layout.width(layout.EGO), layout.action_width(CONFIG.comm_dim)
    actors, losses = [], []
    for group in ("blue", "red"):
        net = nn.Sequential(nn.Linear(features, 32), nn.Tanh(), nn.Linear(32, 2 * width), NormalParamExtractor())
        keys = [(group, "loc"), (group, "scale")]
        actor = ProbabilisticActor(
            TensorDictModule(net, in_keys=[(group, *EGO)], out_keys=keys),
            in_keys=keys,
            out_keys=[(group, "action")],
            distribution_class=TanhNormal,
            return_log_prob=True,
            log_prob_key=(group, "log_prob"),
        )
        critic = TensorDictModule(
            nn.Sequential(nn.Linear(features, 32), nn.Tanh(), nn.Linear(32, 1)),
            in_keys=[(group, *EGO)],
            out_keys=[(group, "state_value")],
        )
        loss = MAPPOLoss(actor, critic)
        loss.set_keys(
            action=(group, "action"),
            sample_log_prob=(group, "log_prob"),
            value=(group, "state_value"),
            reward=(group, "reward"),
            done="done",
            terminated="terminated",
            advantage=(group, "advantage"),
            value_target=(group, "value_target"),
        )
        actors.append(actor)
        losses.append(loss)

    policy = TensorDictSequential(*actors)
    collector = Collector(env, policy, frames_per_batch=3 * 8, total_frames=3 * 8, track_traj_ids=False)
    (batch,) = list(collector)
    assert batch["next", "blue", "episode_reward"].shape == (3, 8, 5, 1)
    for actor, loss in zip(actors, losses, strict=True):
        found = loss(batch)
        total = sum(found[name] for name in ("loss_objective", "loss_critic", "loss_entropy"))
        assert total.isfinite()
        total.backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in loss.parameters()), actor
