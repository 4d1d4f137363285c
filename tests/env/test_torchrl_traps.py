"""Each row of ENVIRONMENT's table of TorchRL's traps, on real battles: what happens, and what to write in its place."""

import dataclasses

import torch
from builders import short_battles
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler
from torchrl.objectives.value import GAE

import echelon
from echelon.env.env import EchelonEnv
from echelon.env.outcome import Winner
from echelon.rules.catalog import Hull
from echelon.rules.physics import RulesConfig

BRIEF = dataclasses.replace(short_battles(6), rules=RulesConfig(max_episode_s=1.5), map_pool=2)
"""Battles of six decisions, which end by truncation."""


def test_shifted_gae_needs_a_budget_for_each_truncation():
    env = echelon.versus(BRIEF, "heuristic:normal", num_envs=2)
    batch = env.rollout(20, break_when_any_done=False)
    assert int(batch["next", "truncated"].sum(1).max()) >= 2

    class Critic(nn.Module):
        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            return observation.mean(-1, keepdim=True)

    flat = TensorDict(
        {
            "observation": batch["agents", "observation"].flatten(2),
            "next": {
                "observation": batch["next", "agents", "observation"].flatten(2),
                "reward": batch["next", "agents", "reward"].mean(2),
                **{name: batch["next", name] for name in ("done", "terminated", "truncated")},
            },
        },
        batch.batch_size,
        names=[None, "time"],
    )

    def advantage(**settings: object) -> torch.Tensor:
        critic = TensorDictModule(Critic(), in_keys=["observation"], out_keys=["state_value"])
        return GAE(gamma=0.9, lmbda=0.9, value_network=critic, **settings)(flat.clone())["advantage"]

    right = advantage(shifted=False)
    assert not torch.allclose(advantage(shifted=True), right, atol=1e-4)
    most = int(batch["next", "truncated"].sum(1).max())
    torch.testing.assert_close(advantage(shifted=True, shifted_budget=1 + most), right, atol=1e-4, rtol=1e-4)


def test_split_trajectories_pad_the_winner_with_draw():
    env = EchelonEnv(BRIEF, num_envs=2, seed=0)
    frames = 2 * 8
    (split,) = Collector(env, None, frames_per_batch=frames, total_frames=frames, split_trajs=True)
    padded = ~split["collector", "mask"]
    winner = split["next", "outcome", "winner"][..., 0]
    assert padded.any() and (winner[padded] == int(Winner.DRAW)).all() and int(Winner.DRAW) == 0
    assert (winner[~padded & ~split["next", "done"][..., 0]] == int(Winner.RUNNING)).all()


def test_slices_cross_the_seam_of_two_extends():
    env = echelon.versus(BRIEF, "heuristic:normal", num_envs=1)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(100), sampler=SliceSampler(slice_len=4, end_key=("next", "done")), batch_size=400
    )
    for rollout in range(2):
        batch = env.rollout(3, auto_reset=True)[0]
        buffer.extend(batch.set("rollout", torch.full((3,), rollout)))
    sample = buffer.sample()["rollout"].view(-1, 4)
    assert (sample[:, 0] != sample[:, -1]).any()
    # A key that names the trajectory keeps slices within one.
    by_rollout = SliceSampler(slice_len=3, traj_key="rollout")
    apart = ReplayBuffer(storage=buffer.storage, sampler=by_rollout, batch_size=300)
    sample = apart.sample()["rollout"].view(-1, 3)
    assert (sample == sample[:, :1]).all()


def test_attention_without_contacts_is_nan_in_evaluation_only():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    contacts, absent = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    absent[0] = False
    assert layer.train()(contacts, src_key_padding_mask=absent).isfinite().all()
    with torch.no_grad():
        assert layer.eval()(contacts, src_key_padding_mask=absent)[1].isnan().any()
        # A contact that is always there, with zeros for features, keeps the mask from hiding all.
        absent[:, 0] = False
        assert layer(contacts, src_key_padding_mask=absent).isfinite().all()


def test_member_of_an_enumeration_is_never_equal_in_a_graph():
    hulls, alive = torch.tensor([int(Hull.SCOUT), int(Hull.HEAVY)]), torch.ones(2)

    def by_member(hull: torch.Tensor) -> torch.Tensor:
        return alive * (hull == Hull.SCOUT)

    def by_number(hull: torch.Tensor) -> torch.Tensor:
        return alive * (hull == int(Hull.SCOUT))

    assert by_member(hulls).tolist() == [1, 0]
    assert torch.compile(by_member, backend="eager")(hulls).tolist() == [0, 0]
    assert torch.compile(by_number, backend="eager")(hulls).tolist() == [1, 0]
