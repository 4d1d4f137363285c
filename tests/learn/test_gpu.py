"""Tests that need a GPU."""

import contextlib
import dataclasses

import pytest
import torch
from tiny_runs import TINY, everything, run_to_the_end, short_battles, tiny_run

from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BatchArena, Battle, MatchBatch
from echelon.arena.config import ArenaConfig
from echelon.arena.until_done import run_until_done
from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.device_defaults import describe_settings, resolve_settings
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.snapshot_pool import SnapshotPool
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import PPO
from echelon.learn.trainer import Trainer
from echelon.runtime.device import use_device

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CONFIG = dataclasses.replace(short_battles(), map_pool=4)


@contextlib.contextmanager
def waiting_is_an_error():
    """Raise an error inside the context if the host waits for the device."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def make_collector(*opponents: str) -> TeamCollector:
    """Make rollouts of 6 battles, or of 4 against each of several opponents: `heuristic`, `past`, `itself`."""
    device, battles = torch.device("cuda"), 6 if len(opponents) == 1 else 4
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim)).to(device)
    pool = SnapshotPool(1)
    pool.add("iteration 0", policy)
    known = {"heuristic": Heuristic(CONFIG).to(device), "past": FrozenOpponents(policy, 2, 2, pool), "itself": None}
    seats = PolicyAssignment(policy, [OpponentGroup(name, known[name], battles) for name in opponents])
    env = EchelonEnv(CONFIG, seats.num_envs, device=device, seed=1, memory=seats.memory, backend="eager")
    return TeamCollector(env, seats, 16, 8)


@pytest.mark.parametrize("opponents", [("heuristic",), ("heuristic", "itself", "past")])
def test_rollout_never_syncs_with_host(opponents):
    rollout = make_collector(*opponents)
    rollout.collect()
    with waiting_is_an_error():
        batch = rollout.collect()
    assert batch["pre_tanh_log_prob"].isfinite().all()


@pytest.mark.parametrize("compiled", [False, True])
def test_update_never_syncs_with_host(compiled):
    rollout = make_collector("heuristic")
    estimate = NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=ValueNorm().cuda())
    # Any step exceeds this limit, so the second epoch is skipped.
    settings = PPOConfig(rollout_decisions=16, chunk_decisions=8, epochs=2, minibatches=2, target_kl=1e-9)
    ppo = PPO(rollout.policy, settings, compiled=compiled)
    batch = rollout.collect()
    estimate(batch)
    ppo.update(batch, rollout.memory)
    with waiting_is_an_error():
        estimate(batch)
        report = ppo.update(batch, rollout.memory)
    assert report["kl"].isfinite()


def test_match_decisions_never_sync_with_host(monkeypatch):
    """Battles of 12 decisions end before the arena checks, every `DONE_CHECK_EVERY` decisions, whether all have
    ended."""
    device = use_device(torch.device("cuda"))
    network = TINY.build(PolicySpecs(CONFIG.comm_dim)).to(device).eval()
    known = {"network": network, "heuristic": Heuristic(CONFIG).to(device)}
    arena = BatchArena(CONFIG, known.__getitem__, ArenaConfig(device, batch=4))
    battles = [Battle(*pair, seed) for seed in (1, 2) for pair in (("network", "heuristic"), ("heuristic", "network"))]
    assert len(arena.play(battles).results) == 4
    with torch.inference_mode():
        batch = MatchBatch(arena, battles)
        batch.env.set_seed(batch.seeds)
        # TorchRL checks resets on the host; only the following decisions repeat.
        now = batch.env.reset()
        monkeypatch.setattr(batch.env, "reset", lambda: now)
        with waiting_is_an_error():
            outcome = run_until_done(batch.env, batch.env.reset(), batch._decide, len(battles))
        assert (outcome["winner"] >= 0).all()


def test_captured_match_equals_eager_match():
    device = use_device(torch.device("cuda"))
    network = TINY.build(PolicySpecs(CONFIG.comm_dim)).to(device).eval()
    known = {"network": network, "heuristic": Heuristic(CONFIG).to(device)}
    battles = [Battle(*pair, seed) for seed in (1, 2) for pair in (("network", "heuristic"), ("heuristic", "network"))]
    called, captured = (
        BatchArena(CONFIG, known.__getitem__, ArenaConfig(device, precision="fp32", cuda_graph=graph))
        .play(battles)
        .results
        for graph in (False, True)
    )
    assert called == captured


def test_default_battles_fit_into_gpu_memory(tmp_path):
    device = use_device(torch.device("cuda"))
    config = resolve_settings(TrainConfig.standard(), device)
    assert config.num_envs >= 2 and config.compile_policy == "all" and config.cuda_graphs == "on"
    assert f"{device}: {config.num_envs:,} battles" in describe_settings(config, device)
    trainer = Trainer(tiny_run(device="cuda", backend="eager"), tmp_path)
    assert trainer.config.compile_policy == "all" and trainer.opponents.named.compiled
    trainer.train(1)


OPPONENTS = {"self_share": 1 / 3, "snapshot_opponent_share": 1 / 3, "past_blocks": 2, "past_every": 1, "num_envs": 12}


@pytest.mark.parametrize("compile_policy", ["off", "all"])
def test_captured_run_equals_eager_run(tmp_path, compile_policy):
    """Every opponent, five iterations: each graph is called twice, captured, and replayed."""
    runs = {}
    for name in ("off", "on"):
        settings = {"device": "cuda", "precision": "fp32", "compile_policy": compile_policy, "cuda_graphs": name}
        settings["backend"] = "eager"  # compiling a simulation takes minutes
        run = Trainer(tiny_run(**settings, **OPPONENTS, total_agent_steps=10**6), tmp_path / name)
        rows = [run.iterate() for _ in range(5)]
        runs[name] = [row["return"] for row in rows], everything(run)
        if name == "on":
            assert run.collector._graphed.graphs and run.ppo.graphed.graphs
    for name, value in runs["off"][1].items():
        torch.testing.assert_close(runs["on"][1][name], value, msg=name, atol=1e-4, rtol=1e-3)
    assert runs["on"][0] == pytest.approx(runs["off"][0], abs=1e-3)


@pytest.mark.requirement("R8")
@pytest.mark.parametrize(("wrote", "reads"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_run_resumes_on_another_device(tmp_path, wrote, reads):
    run_to_the_end(Trainer(tiny_run(device=wrote, precision="fp32", backend="eager"), tmp_path))
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    second = Trainer(tiny_run(device=reads, precision="fp32", backend="eager", total_agent_steps=640), tmp_path, start)
    assert second.resume_note == "" and second.env.state.tick.device.type == reads
    for parameter, state in second.ppo.optimizer.state.items():
        assert parameter.device.type == reads
        assert all(value.device == parameter.device for value in state.values())
    run_to_the_end(second)
