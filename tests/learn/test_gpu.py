"""What only a GPU can show."""

import dataclasses

import pytest
import torch
from conftest import TINY, short_battles

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.policy import MechPolicy
from echelon.learn.rollout import Rollout
from echelon.learn.seats import Rival, Seats

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_a_rollout_never_waits_for_the_host():
    device = torch.device("cuda")
    config = dataclasses.replace(short_battles(), map_pool=4)
    seats = Seats(MechPolicy(TINY, config.comm_dim).to(device), [Rival("heuristic", Heuristic(config).to(device), 6)])
    env = EchelonEnv(config, 6, device=device, seed=1, memory=seats.memory)
    rollout = Rollout(env, seats, 16, 8)
    rollout.collect()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch, _, _ = rollout.collect()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert batch["log_prob"].isfinite().all()
