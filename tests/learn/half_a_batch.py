"""One of several processes that each learn from a part of one rollout; `test_distributed` compares them with one."""

import sys

import safetensors.torch
import torch
from tensordict import TensorDictBase
from tiny_runs import make_rollout
from torch import Tensor

from echelon.learn.config import PPOConfig
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.update import PPO
from echelon.runtime.distributed import Ranks, destroy_ranks, init_ranks

HULL = torch.tensor([3, 2, 2, 1, 0])


def learn_from(ranks: Ranks, **changes: object) -> dict[str, Tensor]:
    """Return weights, normaliser and report after one iteration on this rank's share of six teams' decisions."""
    rollout = make_rollout()
    batch, memory = rollout.collect(), rollout.memory
    share = batch.shape[0] // ranks.size
    mine = slice(share * ranks.rank, share * (ranks.rank + 1))
    batch, memory = cut(batch, mine), cut(memory, mine)
    settings = {"rollout_decisions": 16, "chunk_decisions": 8, "minibatches": 1, "accumulate": 2, "epochs": 3}
    ppo = PPO(rollout.policy, PPOConfig(**{**settings, "target_kl": 0.0, **changes}), ranks)
    norm = ValueNorm()
    advantage = NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=norm, hull=HULL, ranks=ranks)
    advantage(batch)
    told = {**advantage.diagnostics, **ppo.update(batch, memory)}
    weights = {f"weight.{name}": value.detach() for name, value in rollout.policy.state_dict().items()}
    return {**weights, **{f"norm.{k}": v for k, v in norm.named_buffers()}, **{f"told.{k}": v for k, v in told.items()}}


def spoilt(ranks: Ranks) -> dict[str, Tensor]:
    """Return whether weights changed, and the skipped steps, if one rank alone has a non-finite number."""
    rollout = make_rollout()
    batch, memory = rollout.collect(), rollout.memory
    NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=ValueNorm(), ranks=ranks)(batch)
    if ranks.rank == 1:
        batch["value_target_normalized"][0, 0, 0] = float("nan")
    ppo = PPO(rollout.policy, PPOConfig(rollout_decisions=16, chunk_decisions=8, minibatches=1, epochs=1), ranks)
    before = torch.nn.utils.parameters_to_vector(rollout.policy.parameters()).clone()
    ppo.update(batch, memory)
    after = torch.nn.utils.parameters_to_vector(rollout.policy.parameters())
    return {"changed": (before != after).any(), "skipped": ppo.skipped}


def cut(data: TensorDictBase, teams: slice) -> TensorDictBase:
    """Copy the decisions of some teams."""
    return data[teams].clone()


if __name__ == "__main__":
    torch.set_num_threads(1)
    together = init_ranks()
    found = {f"three.{k}": v for k, v in learn_from(together).items()}
    found |= {f"stopped.{k}": v for k, v in learn_from(together, target_kl=1e-9).items()}
    found |= {f"spoilt.{k}": v for k, v in spoilt(together).items()}
    safetensors.torch.save_file({k: v.contiguous().clone() for k, v in found.items()}, sys.argv[1])
    destroy_ranks(together)
