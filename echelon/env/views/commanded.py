"""Which mechs of each battle the user of a view commands, and the policy that commands the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.arguments import real_action
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS, STREAMS, action_width
from echelon.env.restart import select
from echelon.env.views.group_policy import (
    TeamPolicy,
    action_noise,
    check_decided,
    draws_actions,
    memory_spec_of,
    team_input,
)
from echelon.runtime.errors import require

Side = Literal["both", "blue", "red"]


@dataclass(frozen=True)
class AllMechs:
    """All N mechs, blue first."""

    names: Sequence[str]
    num_blue: int

    @property
    def count(self) -> int:
        return len(self.names)

    def gather(self, blue: Tensor, red: Tensor) -> Tensor:
        """`[B, N, ...]` from `[B, A, ...]` of each team."""
        return torch.cat((blue, red), 1)

    def split(self, own: Tensor, other: Tensor | None) -> tuple[Tensor, Tensor]:
        """Values of blue and red, `[B, A, ...]` each, from those of all mechs, `own`."""
        return own[:, : self.num_blue], own[:, self.num_blue :]

    def to(self, device: torch.device) -> AllMechs:
        return self


@dataclass(frozen=True)
class OneTeam:
    """One team of each battle, of A mechs."""

    names: Sequence[str]
    is_red: Tensor | bool
    """`[B]` bool, or one for all battles."""

    @staticmethod
    def of(side: Side, group_map: Mapping[str, Sequence[str]], num_envs: int, device: torch.device) -> OneTeam:
        """The team on `side`; with `both`, blue in the battles of even index and red in those of odd index."""
        sizes = dict(zip(GROUPS, (len(names) for names in group_map.values()), strict=True))
        require(side in ("both", *GROUPS), "side", "both, blue or red", side)
        if side != "both":
            return OneTeam([f"agent_{i}" for i in range(sizes[side])], side == "red")
        is_even = len(set(sizes.values())) == 1
        require(is_even, "side", f"blue or red for teams of {sizes['blue']} and {sizes['red']} mechs", side)
        is_red = torch.arange(num_envs, device=device) % 2 == 1
        return OneTeam([f"agent_{i}" for i in range(sizes["blue"])], is_red)

    @property
    def count(self) -> int:
        return len(self.names)

    def gather(self, blue: Tensor, red: Tensor) -> Tensor:
        """`[B, ...]` values of the commanded team, from those of both."""
        if isinstance(self.is_red, bool):
            return red if self.is_red else blue
        return select(self.is_red, red, blue)

    def split(self, own: Tensor, other: Tensor | None) -> tuple[Tensor, Tensor]:
        """Values of blue and red, from those of the commanded team and of the other."""
        assert other is not None
        return self.gather(own, other), self.gather(other, own)

    def to(self, device: torch.device) -> OneTeam:
        return self if isinstance(self.is_red, bool) else replace(self, is_red=self.is_red.to(device))


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
    seen, width = env.observed(), action_width(env.config.comm_dim)

    def other(blue: Tensor, red: Tensor) -> Tensor:
        return commanded.gather(red, blue)

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
