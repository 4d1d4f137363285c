"""Convert a batch of TorchRL's `Collector` to the form of `TeamCollector`, for `NormalizedGAE` and `PPO`."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase

from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.runtime.errors import require


@torch.no_grad()
def as_team_batch(
    batch: TensorDictBase, policy: ActorCritic, chunk: int, group: str = "agents", normalizer: ValueNorm | None = None
) -> tuple[TensorDict, TensorDict]:
    """Convert the rollout of a policy on `echelon.versus(..., observation="structured", memory=policy.memory_spec())`.

    Every battle becomes a row, so G = B. The values of all states and their next states are computed here from the
    stored memory of each state.

    Args:
        batch: the rollout `[B, T]`, collected by `policy.get_policy_operator(group)`.
        policy: the policy that collected the rollout; its critic must be local, because the view does not contain the
            enemies' state.
        chunk: length of a training sequence, a divisor of T.
        group: the group of all commanded mechs.
        normalizer: converts the critic's values to real units; None if they are in real units.

    Returns:
        The batch `[G, T]` and the memory `[G, T / chunk]` at the start of each training sequence, see `TeamCollector`.

    Raises:
        ConfigError: if `chunk` does not divide T, or the critic is central.
    """
    require(batch.shape[1] % chunk == 0, "chunk", f"a divisor of {batch.shape[1]} decisions", chunk)
    value, shape = policy.get_value_operator(group, normalizer), batch.shape
    td, after = value(batch.copy()), value(batch.get("next").copy())
    following = {name: after.get(name) for name in ("done", "terminated", "truncated")}
    following |= {name: after.get((group, name)) for name in ("reward", "state_value")}
    root = {name: td.get(name) for name in ("telemetry", "is_init")}
    team = td.get(group).exclude("memory", "next").to_dict()
    memory = td.get((group, "memory"))[:, ::chunk].to_dict() if policy.keys.memory else {}
    rows = TensorDict({**team, **root, "next": following}, shape, names=[None, "time"])
    return rows, TensorDict(memory, [shape[0], shape[1] // chunk])
