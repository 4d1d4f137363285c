"""What only a GPU can show."""

import dataclasses

import pytest
import torch
from tiny_runs import TINY, run_to_the_end, short_battles, tiny_run

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.trainer import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_a_rollout_never_waits_for_the_host():
    device = torch.device("cuda")
    config = dataclasses.replace(short_battles(), map_pool=4)
    policy = TINY.build(PolicySpecs(config.comm_dim)).to(device)
    seats = PolicyAssignment(policy, [OpponentGroup("heuristic", Heuristic(config).to(device), 6)])
    env = EchelonEnv(config, 6, device=device, seed=1, memory=seats.memory)
    rollout = TeamCollector(env, seats, 16, 8)
    rollout.collect()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = rollout.collect()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert batch["pre_tanh_log_prob"].isfinite().all()


@pytest.mark.parametrize(("wrote", "reads"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_goes_on_on_another_device(tmp_path, wrote, reads):
    run_to_the_end(Trainer(tiny_run(device=wrote, precision="fp32"), tmp_path))
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    second = Trainer(tiny_run(device=reads, precision="fp32", total_agent_steps=640), tmp_path, start)
    assert second.resume_note == "" and second.env.state.tick.device.type == reads
    for parameter, state in second.ppo.optimizer.state.items():
        assert parameter.device.type == reads
        assert all(value.device == parameter.device for value in state.values())
    run_to_the_end(second)
