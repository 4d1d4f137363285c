"""An iteration on fake CUDA: all tensors on the device, one host read, and few copies, each with its reason."""

import dataclasses

import pytest
from tiny_runs import TINY, short_battles, tiny_run

from echelon.agents.tiers import TIERS
from echelon.learn.config import CurriculumConfig, PPOConfig
from echelon.learn.models.registry import model_with
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig
from echelon.runtime import cuda_graphs as cuda_graphs_module
from fakecuda.fakes import CUDA, Fakes, left_on_the_host
from fakecuda.watch import Watch

pytestmark = pytest.mark.fakecuda

READS = {"learn/metrics.py:read": "the report of the iteration"}
COPIES = {
    "to host: learn/metrics.py:read": "the report of the iteration",
    "to device: learn/trainer.py:_anneal": "once an iteration: the factors on rewards",
    "to device: learn/opponents/frozen.py:_update_edges": "once an iteration: shares of the frozen opponents",
}
SHORT = PPOConfig(rollout_decisions=2, chunk_decisions=1, epochs=2, minibatches=2)


def tiny_trainer(folder, **changes) -> Trainer:
    """Return a trainer on the CPU in eager mode."""
    return Trainer(
        tiny_run(**{"num_envs": 12, "backend": "eager", "precision": "bf16", "ppo": SHORT, **changes}), folder
    )


def iterate(mode, gradients, trainer: Trainer) -> tuple[Trainer, Watch]:
    """Run one iteration of a trainer with fake tensors."""
    Fakes(mode)(trainer)
    gradients(list(trainer.policy.parameters()))
    watch = Watch()
    with mode, watch:
        trainer.iterate()
    return trainer, watch


def check(mode, trainer: Trainer, watch: Watch) -> None:
    assert not watch.mixes
    assert watch.reads.keys() <= READS.keys() and watch.transfers.keys() <= COPIES.keys()
    assert watch.transfers["to host: learn/metrics.py:read"] == 1
    assert max(watch.transfers.values()) == 1, "each once"
    assert watch.operations.total() > 1000
    assert left_on_the_host(trainer, mode) == []
    leaves = [*trainer.collector.buffer.values(True, True), *trainer.env.state.to_tensordict().values(True, True)]
    assert {leaf.device for leaf in leaves} == {CUDA}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["lstm", "gru", "mlp"])
def test_iteration_of_each_policy_kind_stays_on_device(mode, gradients, tmp_path, kind, precision):
    changes = {"opponent": "self", "model": model_with(kind, TINY), "precision": precision}
    check(mode, *iterate(mode, gradients, tiny_trainer(tmp_path, **changes)))


@pytest.mark.parametrize("cuda_graphs", ["off", "on"])
def test_iteration_with_each_opponent_kind_stays_on_device(mode, gradients, tmp_path, monkeypatch, cuda_graphs):
    # Call the function instead of capturing it, because a capture needs a driver.
    monkeypatch.setattr(cuda_graphs_module, "has_graphs", lambda device: False)
    opponents = {"self_share": 1 / 3, "snapshot_opponent_share": 1 / 3, "past_blocks": 2, "cuda_graphs": cuda_graphs}
    trainer, watch = iterate(mode, gradients, tiny_trainer(tmp_path, **opponents))
    check(mode, trainer, watch)
    assert set(trainer.opponents.assignment.battles) == {"heuristic", "itself", "past"}


@pytest.mark.parametrize("tier", TIERS)
def test_iteration_against_each_tier_stays_on_device(mode, gradients, tmp_path, tier):
    """While some battles still have the previous commander, both commanders decide."""
    before = "easy" if tier != "easy" else "hard"
    curriculum = CurriculumConfig(opponents=(before, tier))
    made = tiny_trainer(tmp_path, opponent="curriculum", curriculum=curriculum)
    made.opponents.named.set_opponent(f"heuristic:{tier}", 0.5)
    assert made.opponents.named.old_is_read
    check(mode, *iterate(mode, gradients, made))


@pytest.mark.parametrize(
    "changes",
    [
        {"target_kl": 0.01},
        {"accumulate": 2, "checkpoint_gradients": True},
        {"advantages_by_class": True, "value_clip": 0.2},
    ],
    ids=str,
)
def test_each_update_variant_stays_on_device(mode, gradients, tmp_path, changes):
    check(
        mode,
        *iterate(mode, gradients, tiny_trainer(tmp_path, opponent="self", ppo=dataclasses.replace(SHORT, **changes))),
    )


def test_unequal_teams_with_central_critic_stay_on_device(mode, gradients, tmp_path):
    env = dataclasses.replace(short_battles(), blue=("scout", "light", "heavy"), red=("scout", "medium"))
    model = dataclasses.replace(TINY, critic="central")
    check(mode, *iterate(mode, gradients, tiny_trainer(tmp_path, opponent="self", env=env, model=model)))


def test_all_features_and_rewards_stay_on_device(mode, gradients, tmp_path):
    env = dataclasses.replace(EnvConfig.standard(), map_pool=2, comm_dim=4)
    check(mode, *iterate(mode, gradients, tiny_trainer(tmp_path, opponent="heuristic:expert", env=env)))
