"""The mechs that a view's user commands, and the policies that command the other mechs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from echelon.agents.runner import SeatedPolicy, TeamObservation, TeamRunner, action_noise
from echelon.agents.team_policy import TeamPolicy, draws_actions
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS, action_width
from echelon.env.restart import select
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
        """Join the values of both teams, `[B, A, ...]` each, to `[B, N, ...]`."""
        return torch.cat((blue, red), 1)

    def among_all(self, values: Tensor, teams: Mapping[str, slice]) -> Tensor:
        """Return `values [B, N, ...]` of all mechs, which this object commands."""
        return values

    def split(self, team: Tensor, other: Tensor | None) -> tuple[Tensor, Tensor]:
        """Split the values of all mechs, `team`, into blue and red, `[B, A, ...]` each."""
        return team[:, : self.num_blue], team[:, self.num_blue :]

    def to(self, device: torch.device) -> AllMechs:
        return self


@dataclass(frozen=True)
class OneTeam:
    """The commanded mechs of a view of one team: the A mechs of a team in each battle, or some of these mechs."""

    names: Sequence[str]
    is_red: Tensor | bool
    """`[B]` bool, or one bool for all battles."""
    places: Tensor | None = None
    """`[k]` int64: places of the commanded mechs in the team; None for all of them."""

    @staticmethod
    def of(side: Side, group_map: Mapping[str, Sequence[str]], num_envs: int, device: torch.device) -> OneTeam:
        """Return the team on `side`; with `both`, the team is blue in even battles and red in odd battles."""
        sizes = dict(zip(GROUPS, (len(names) for names in group_map.values()), strict=True))
        require(side in ("both", *GROUPS), "side", "both, blue or red", side)
        if side != "both":
            return OneTeam([f"agent_{i}" for i in range(sizes[side])], side == "red")
        is_even = len(set(sizes.values())) == 1
        require(is_even, "side", f"blue or red for teams of {sizes['blue']} and {sizes['red']} mechs", side)
        is_red = torch.arange(num_envs, device=device) % 2 == 1
        return OneTeam([f"agent_{i}" for i in range(sizes["blue"])], is_red)

    def some(self, places: Sequence[int], device: torch.device) -> OneTeam:
        """Return the same team, of which the user commands only the mechs with the indices `places`."""
        index = torch.tensor(places, device="cpu", dtype=torch.int64).to(device)
        return replace(self, names=[self.names[i] for i in places], places=index)

    @property
    def count(self) -> int:
        return len(self.names)

    def of_team(self, blue: Tensor, red: Tensor) -> Tensor:
        """Select the user's team's values `[B, ...]` from the values of blue and red."""
        if isinstance(self.is_red, bool):
            return red if self.is_red else blue
        return select(self.is_red, red, blue)

    def of_other(self, blue: Tensor, red: Tensor) -> Tensor:
        """Select the other team's values `[B, ...]` from the values of blue and red."""
        return self.of_team(red, blue)

    def gather(self, blue: Tensor, red: Tensor) -> Tensor:
        """Select the commanded mechs' values `[B, n, ...]` from the values of blue and red, `[B, A, ...]` each."""
        team = self.of_team(blue, red)
        return team if self.places is None else team[:, self.places]

    def among_all(self, values: Tensor, teams: Mapping[str, slice]) -> Tensor:
        """Select the commanded mechs' values `[B, n, ...]` from those of all mechs, `[B, N, ...]`."""
        return self.gather(*(values[:, span] for span in teams.values()))

    def split(self, team: Tensor, other: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the values of blue and of red, given the values of the user's team and of the other team."""
        assert other is not None
        return self.of_team(team, other), self.of_other(team, other)

    def to(self, device: torch.device) -> OneTeam:
        is_red = self.is_red if isinstance(self.is_red, bool) else self.is_red.to(device)
        return replace(self, is_red=is_red, places=None if self.places is None else self.places.to(device))


class InsideTeams(TeamRunner):
    """The policies that run inside a view, each for one team of each battle.

    Args:
        policies: the policies, keyed by role, such as `opponent`, or None for a role without a policy; error messages
            contain the role.
        mechs: number of mechs A in the team of each policy.
        of_team: for each policy, a function that selects its team's values from the values of blue and red.
    """

    def __init__(
        self,
        env: EchelonEnv,
        policies: Mapping[str, TeamPolicy | None],
        mechs: Mapping[str, int],
        of_team: Mapping[str, Callable[[Tensor, Tensor], Tensor]],
    ) -> None:
        width = action_width(env.config.comm_dim)
        self.env, self.of_team = env, of_team
        self.policies = {who: policy for who, policy in policies.items() if policy is not None}
        seated = {
            who: SeatedPolicy(policy, None, mechs[who], env.device, teams=env.num_envs, who=who, width=width)
            for who, policy in self.policies.items()
        }
        super().__init__(seated, shape=(env.num_envs,))

    @torch.no_grad()
    def decide(self, who: str) -> Tensor:
        """Return a policy's actions `[B, A, D]` for its whole team."""
        td, of_team = self.env.last_observation(), self.of_team[who]
        normals = noise_of_teams(self.env) if draws_actions(self.policies[who]) else None
        return self.deciders[who].decide(TeamObservation.from_groups(td, of_team, td.get("telemetry"), normals))


def noise_of_teams(env: EchelonEnv) -> tuple[Tensor, ...]:
    """Return standard normal samples `[B, A, D]` for the actions of each team, derived from the battles' seeds and
    clocks."""
    sizes = [len(names) for names in env.group_map.values()]
    decision = env.state.tick // env.config.rules.decision_repeat
    return action_noise(env.state.seed, decision, sum(sizes), action_width(env.config.comm_dim)).split(sizes, 1)
