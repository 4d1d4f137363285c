"""Six light mechs against three heavies: the learner plays both roles, and padding has no effect."""

import dataclasses

import pytest
import torch
from tiny_runs import TINY, everything, run_to_the_end, short_battles, tiny_run
from torch import Tensor

from echelon.agents import env_teams
from echelon.agents.env_teams import pad_mechs
from echelon.learn import padding
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.metrics import MEASURED, read_columns, read_metrics
from echelon.learn.models.registry import model_with
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents import assignment
from echelon.learn.opponents.assignment import LEARNER
from echelon.learn.padding import EXISTS
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.update import RecurrentPPOLoss, Sequences, total
from echelon.learn.trainer import Trainer

SIX, THREE = ("light",) * 6, ("heavy",) * 3
UNEQUAL = dataclasses.replace(short_battles(), map_pool=2, blue=SIX, red=THREE)
MIXED = {"num_envs": 8, "self_share": 0.25, "snapshot_opponent_share": 0.5, "past_blocks": 2, "past_every": 1}
"""Two battles each against the heuristic and in self-play, four against snapshots."""
MECHS = 3 * 6 + 3 * 3 + 2 * 9
"""Number of the learner's mechs: three times each team, and both teams twice."""


def unequal_run(iterations: int = 1, **changes: object) -> TrainConfig:
    return tiny_run(**{"env": UNEQUAL, "total_agent_steps": 8 * MECHS * iterations, **MIXED, **changes})


def poisoned(leaf: Tensor, mechs: int) -> Tensor:
    """`pad_mechs` with NaN instead of zeros."""
    padded = pad_mechs(leaf, mechs)
    if padded is not leaf and leaf.is_floating_point():
        padded[:, leaf.shape[1] :] = torch.nan
    return padded


def test_learner_plays_both_rosters_against_every_opponent_kind(tmp_path):
    trainer = run_to_the_end(Trainer(unequal_run(2), tmp_path))
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["agent_steps"] for row in rows] == [8 * MECHS, 16 * MECHS], "padding does not count"
    assert {"win_rate_blue", "win_rate_red"} <= set(read_columns(tmp_path / "metrics.csv"))
    exists, batch = trainer.collector.exists, trainer.collector.buffer
    # By opponent: six lights and three heavies; both in self-play; two battles per role against snapshots.
    assert exists.sum(1).tolist() == [6, 3, 6, 6, 3, 3, 6, 6, 3, 3]
    assert batch["mask"].shape == (8, 10, 6) and not (batch["mask"] & ~exists).any()
    assert torch.equal(batch[EXISTS], exists.expand(8, -1, -1))
    before = Trainer(unequal_run(), tmp_path / "fresh").policy.state_dict()
    assert any(not torch.equal(value, before[name]) for name, value in trainer.policy.state_dict().items())


def test_run_with_unequal_teams_resumes_exactly(tmp_path):
    whole = run_to_the_end(Trainer(unequal_run(2), tmp_path / "whole"))
    Trainer(unequal_run(2), tmp_path / "parts").train(1)
    start = open_checkpoint(newest_checkpoint(tmp_path / "parts/checkpoints"))
    second = Trainer(unequal_run(2), tmp_path / "parts", start)
    assert second.resume_note == ""
    found, expected = everything(run_to_the_end(second)), everything(whole)
    assert [name for name, value in expected.items() if not torch.equal(found[name], value)] == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"ppo": PPOConfig(8, 4, 2, 2, accumulate=2, advantages_by_class=True)},
    ],
)
def test_padding_does_not_change_any_result(tmp_path, monkeypatch, changes):
    """Metrics, normaliser, weights and moments are bitwise equal for any values in padding.

    In float32, because oneDNN's bf16 products on AMX multiply values after the last column, a part of the next row, by
    0.
    """
    runs = []
    for name, pad in (("zeros", pad_mechs), ("poison", poisoned)):
        for module in (env_teams, assignment):
            monkeypatch.setattr(module, "pad_mechs", pad)
        trainer = run_to_the_end(Trainer(unequal_run(2, precision="fp32", **changes), tmp_path / name))
        assert trainer.collector.buffer["observation", "ego"].isnan().any() == (name == "poison")
        rows = [
            {k: v for k, v in row.items() if k not in MEASURED} for row in read_metrics(tmp_path / name / "metrics.csv")
        ]
        runs.append((rows, everything(trainer)))
    assert runs[0][0] == runs[1][0]
    for name, value in runs[0][1].items():
        assert torch.equal(value, runs[1][1][name]), name


ROSTERS = {
    "of other kinds": (("heavy", "light", "scout"), ("light", "heavy", "medium")),
    "of other sizes": (("heavy", "light", "scout", "medium"), ("light", "heavy", "heavy")),
}


@pytest.mark.requirement("R37")
@pytest.mark.quick
@pytest.mark.parametrize("rosters", ROSTERS.values(), ids=ROSTERS)
def test_class_advantages_are_standardised_over_both_sides(tmp_path, rosters):
    """By hand: mech m of a row has the class at place m in the roster of the row's group."""
    env = dataclasses.replace(UNEQUAL, blue=rosters[0], red=rosters[1])
    trainer = Trainer(unequal_run(env=env, ppo=PPOConfig(8, 4, 2, 2, advantages_by_class=True)), tmp_path)
    batch = trainer.collector.collect()
    batch["mask"][:, ::3, 1] = False  # some of the second mechs are dead
    found, _ = trainer.advantage.recursion(batch)
    trainer.advantage(batch)
    teams = [
        group
        for group, battles in trainer.opponents.assignment.teams[LEARNER]
        for _ in range(battles.start, battles.stop)
    ]
    kinds = [env.blue if group == "blue" else env.red for group in teams]
    assert len(kinds) == 10 and {*env.blue, *env.red} > {"heavy", "light"}
    for kind in {*env.blue, *env.red}:
        places = [(row, mech) for row, hulls in enumerate(kinds) for mech, hull in enumerate(hulls) if hull == kind]
        rows, mechs = (list(place) for place in zip(*places, strict=True))
        own, alive = found[rows, :, mechs, 0].double(), batch["mask"][rows, :, mechs]
        mean, deviation = own[alive].mean(), own[alive].std(correction=0)
        assert deviation > 1e-3
        written = batch["advantage"][rows, :, mechs, 0].double()
        torch.testing.assert_close(written, (own - mean) / deviation, atol=1e-3, rtol=1e-3)


@pytest.mark.quick
def test_padded_batch_gives_same_losses_and_gradients(rollout):
    """Two more mechs of NaN per team: advantages, normaliser, losses and gradients are equal."""
    plain, memory = rollout.collect().clone(), rollout.memory.clone()
    plain["telemetry"].uniform_()
    teams, steps, mechs = plain["mask"].shape

    def widen(name: object, leaf: Tensor) -> Tensor:
        if name == "telemetry" or leaf.shape[2:3] != (mechs,):
            return leaf
        wide = leaf.new_zeros((*leaf.shape[:2], mechs + 2, *leaf.shape[3:]))
        if leaf.is_floating_point():
            wide.fill_(torch.nan)
        wide[:, :, :mechs] = leaf
        return wide

    padded, padded_memory = (data.named_apply(widen, nested_keys=True) for data in (plain, memory))
    padded[EXISTS] = (torch.arange(mechs + 2) < mechs).expand(teams, steps, -1)
    found = []
    for batch, remembered in ((plain, memory), (padded, padded_memory)):
        norm = ValueNorm()
        estimate = NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=norm)
        estimate(batch)
        policy = rollout.policy
        policy.zero_grad()
        loss = RecurrentPPOLoss.of(policy.get_policy_operator(), policy.get_value_head(), PPOConfig())
        data = Sequences(batch, remembered, 8)
        report = dict(loss(data.take(torch.arange(data.count))).items())
        total(report).backward()
        grads = {name: value.grad.clone() for name, value in policy.named_parameters()}
        told = {name: value.detach() for name, value in report.items()}
        advantage = {"advantage": batch["advantage"][:, :, :mechs]}
        found.append({**told, **grads, **estimate.diagnostics, **dict(norm.named_buffers()), **advantage})
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.quick
def test_central_critic_ignores_padding(tmp_path):
    config = unequal_run(model=model_with("lstm", dataclasses.replace(TINY, critic="central")))
    trainer = Trainer(config, tmp_path)
    batch = trainer.collector.collect()
    assert batch["enemy"].shape[2] == 6
    policy, row = trainer.policy, batch[1]  # a team of three heavies, against six lights
    embed = torch.randn(8, 6, TINY.hidden)
    ego, enemy = row["observation", "ego"], row["enemy"]
    whole = policy.critic(embed, ego, enemy)[:, :3]
    torch.testing.assert_close(whole, policy.critic(embed[:, :3], ego[:, :3], enemy))


@pytest.mark.quick
def test_opponents_observe_only_their_own_team(tmp_path):
    trainer = Trainer(unequal_run(), tmp_path)
    now = trainer.env.reset()
    for name, teams in (("heuristic", 1), ("past", 2)):
        shapes = [view.batch_size for view in trainer.opponents.assignment.views(now, name)]
        assert shapes == [(teams, 3), (teams, 6)], "as red, then as blue"


@pytest.mark.quick
def test_team_mean_excludes_padding():
    value = torch.tensor([[[1.0], [2.0], [torch.nan]], [[1.0], [2.0], [6.0]]])
    exists = torch.tensor([[True, True, False], [True, True, True]])
    assert padding.team_mean(value, exists).flatten().tolist() == [1.5, 3.0]
    assert padding.mean_of_existing(value, exists).item() == pytest.approx(12 / 5)
    assert padding.without_padding(value, exists).flatten().tolist() == [1, 2, 0, 1, 2, 6]
