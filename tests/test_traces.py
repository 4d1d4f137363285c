"""Each function that a GPU compiles is one graph for Dynamo, with this torch.

Functions are traced on CPU tensors in the dense form, which a GPU compiles, and run eagerly.
`tests/torch_matrix.sh` runs this file with each torch version.
"""

import dataclasses

import graphs
import pytest
import torch
from tiers import usually
from tiny_runs import TINY, short_battles, tiny_run

from echelon.agents.compiled import compiled_commander
from echelon.agents.heuristic import Heuristic
from echelon.agents.tiers import TIERS
from echelon.env import rehearsal
from echelon.env.env import EchelonEnv
from echelon.learn.config import CurriculumConfig
from echelon.learn.curriculum import CurriculumState
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.snapshot_pool import SnapshotPool
from echelon.learn.ppo import collector, learner_views
from echelon.learn.ppo.update import LOSS
from echelon.learn.trainer import Trainer
from echelon.replay.recorder import Recorder
from echelon.runtime.compile import EXACT_ON_GPU, ON_GPU, fused

CPU = torch.device("cpu")
CONFIG = dataclasses.replace(short_battles(), map_pool=2)


@pytest.fixture
def traced(monkeypatch):
    """Names of the traced functions."""
    graphs.dense_forms(monkeypatch)
    return graphs.trace_only(monkeypatch)


@pytest.mark.long
def test_training(traced, monkeypatch, tmp_path):
    """Environment, acting, writing, values, set encoders and loss are graphs; the next stage of a curriculum compiles
    nothing again."""
    for module in (collector, learner_views):
        monkeypatch.setattr(module, "fused_on_gpu", fused)
    stages = CurriculumConfig(opponents=("heuristic:trivial",), difficulty=(0.2, 0.8))
    config = tiny_run(backend="graph", compile_policy="all", cuda_graphs="on", opponent="curriculum", curriculum=stages)
    trainer = Trainer(config, tmp_path)
    trainer.iterate()
    environment = {"reset_by_mask", "decode", "play", "score_observe_reward", "reset_into_buffers"}
    assert set(traced) == environment | {"write_step", "concat_pieces", "ActorNetwork.forward", LOSS}
    # The next stage has a new environment, maps and collector with the same shapes.
    before = traced.copy()
    trainer.curriculum.state = CurriculumState(stage=1)
    with trainer._process():
        trainer._enter_stage()
        trainer.opponents.set_opponent(trainer.curriculum.stage)
    assert trainer.env.config.world.difficulty == 0.8
    trainer.iterate()
    assert traced == before


@pytest.mark.long
def test_a_rehearsal(traced):
    """A rehearsal compiles each function once."""
    env = EchelonEnv(CONFIG, 2, "cpu", seed=1, backend="graph")
    rehearsal.rehearse(env, captures=True)
    assert sorted(traced) == ["reset_by_mask", "reset_into_buffers", "decode", "play", "score_observe_reward"]


@pytest.mark.long
def test_steps_and_resets_that_are_recorded(traced):
    """Functions that the public interface compiles in addition."""
    env = EchelonEnv(CONFIG, 2, "cpu", seed=1, backend="graph", observer=Recorder([0]))
    env.rollout(2)
    assert set(traced) == {"decode", "logged_substep", "score_observe_reward", "reset_by_mask"}


@pytest.mark.long
def test_stacked_networks(traced):
    """Networks of frozen opponents and of matches, by `torch.vmap`."""
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim)).eval()
    pool = SnapshotPool(1)
    pool.add("iteration 0", policy)
    seats = PolicyAssignment(policy, [OpponentGroup("past", FrozenOpponents(policy, 2, 2, pool, compiled=True), 4)])
    with torch.inference_mode():
        seats.decide(EchelonEnv(CONFIG, 4, "cpu", seed=3, memory=seats.memory, backend="eager").reset())
    assert traced == ["batched_forward"]


@pytest.mark.parametrize("tier", usually(TIERS, "expert"))
def test_scripted_commanders(traced, tier):
    env = EchelonEnv(CONFIG, 2, "cpu", seed=1, backend="eager")
    commander = Heuristic(CONFIG, tier)
    team = env.reset()["blue"].select("observation").set("memory", commander.memory_spec().zero().expand(2, 5))
    expected = commander(team.copy())["action"]
    compiled = compiled_commander(commander, CPU)(team.copy())["action"]
    assert torch.allclose(compiled, expected, atol=1e-4)
    assert traced == [f"heuristic:{tier}"]


def test_options_for_a_gpu_are_known():
    assert torch.compile(len, options={**ON_GPU, **EXACT_ON_GPU})
