"""The policy of the other team of a view: what it is shown, and how it is asked."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.arguments import real_action
from echelon.env.commanded import OneTeam
from echelon.env.env import EchelonEnv
from echelon.env.group_policy import TeamPolicy, action_noise, check_decided, draws_actions, memory_spec_of, team_input
from echelon.env.observation.layout import GROUPS, STREAMS, action_width
from echelon.runtime.errors import require


def first_memory(policy: TeamPolicy | None, env: EchelonEnv, commanded: int) -> TensorDictBase:
    """What the opponent remembers of battles that begin, batch `[B, A]`; nothing where there is none.

    Args:
        commanded: number of mechs that the user of the view commands.
    """
    if policy is None:
        return TensorDict({}, [env.num_envs], device=env.device)
    shape = (env.num_envs, env.config.num_mechs - commanded)
    return memory_spec_of(policy).expand(shape).to(env.device).zero()


@torch.no_grad()
def decide_other(
    policy: TeamPolicy, env: EchelonEnv, commanded: OneTeam, memory: TensorDictBase
) -> tuple[Tensor, TensorDictBase]:
    """What the team does that nobody commands through the view.

    Args:
        memory: what the policy remembers, batch `[B, A]`.

    Returns:
        Actions `[B, A, D]` and the next memory.
    """
    seen, other, width = env.observed(), commanded.gather_other, action_width(env.config.comm_dim)
    mask = other(*(seen.get((group, "mask")) for group in GROUPS))
    streams = {name: other(*(seen.get((group, "observation", name)) for group in GROUPS)) for name in STREAMS}
    normals = other(*noise_of_teams(env, width)) if draws_actions(policy) else None
    decided = policy(team_input(streams, mask, seen.get("telemetry"), memory.copy(), normals))
    check_decided("opponent", decided)
    action, shape = real_action("action of the opponent", decided.get("action", None)), (*mask.shape, width)
    require(action.shape == shape, "action of the opponent", f"of shape {shape}", tuple(action.shape))
    return action, decided.get(("next", "memory"), memory)


def noise_of_teams(env: EchelonEnv, width: int) -> tuple[Tensor, ...]:
    """`[B, A, D]` standard normal numbers for each team, drawn from the battles' seeds and clocks."""
    sizes = [len(names) for names in env.group_map.values()]
    decision = env.state.tick // env.config.rules.decision_repeat
    return action_noise(env.state.seed, decision, sum(sizes), width).split(sizes, 1)
