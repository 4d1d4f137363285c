"""What the critics of the networks of a match think of recorded battles."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.agents.runner import TeamObservation
from echelon.agents.stacked import Stackable, StackedPolicies
from echelon.learn.models.actor_critic import ActorCritic, Critic


@dataclass(frozen=True)
class Followed:
    """Recorded teams of one policy on one side."""

    critic: Critic
    at: Tensor
    """`[K]` int64, their places among the teams of `StackedPolicies`."""
    rows: Tensor
    """`[K]` int64, their rows of the batch."""
    others: Tensor
    """`[K]` int64, the rows of their enemies, whose state a central critic reads."""
    mechs: tuple[int, int]
    """In a team, and in that of the enemy."""


class ValueEstimates:
    """Values of the teams of recorded battles that an `ActorCritic` commands.

    A critic says its values in normalised units: what they were trained with is no part of a policy. Teams of other
    policies have none.

    Args:
        stacked: the networks, which then keep their embeddings.
    """

    def __init__(
        self,
        stacked: Sequence[StackedPolicies],
        battles: Collection[int],
        sizes: tuple[int, int],
        count: int,
    ) -> None:
        self.battles, self.sizes, self.count = battles, sizes, count
        self.followed: list[tuple[StackedPolicies, list[Followed]]] = []
        for decider in stacked:
            teams = [
                followed
                for policy, positions in zip(decider.policies, decider.places, strict=True)
                for side in (0, 1)
                if (followed := self._teams_of(policy, decider, positions, side)) is not None
            ]
            decider.keeps_embed = len(teams) > 0
            if teams:
                self.followed.append((decider, teams))

    def _teams_of(self, policy: Stackable, decider: StackedPolicies, places: range, side: int) -> Followed | None:
        rows = {position: decider.commanded[position] for position in places}
        own_rows = {row for row in rows.values() if row // self.count == side and row % self.count in self.battles}
        positions = [position for position, row in rows.items() if row in own_rows]
        if not positions:
            return None
        device = decider.rows.device
        team_rows = torch.tensor([rows[position] for position in positions], device=device)
        enemy_rows = (team_rows + self.count) % (2 * self.count)
        assert isinstance(policy, ActorCritic)
        critic, sizes = copy.deepcopy(policy.critic).to(device), (self.sizes[side], self.sizes[1 - side])
        return Followed(critic, torch.tensor(positions, device=device), team_rows, enemy_rows, sizes)

    def __call__(self, observation: TeamObservation) -> Tensor:
        """`[B, 2]` mean value over the living mechs of blue and of red, once the policies have decided; NaN of teams
        that are not followed."""
        ego = observation.streams["ego"]
        values = ego.new_full((2 * self.count,), float("nan"), dtype=torch.float32)
        for decider, followed in self.followed:
            assert decider.embed is not None
            for team in followed:
                own_mechs, enemy_mechs = team.mechs
                mech_values = team.critic(
                    decider.embed[team.at, :own_mechs], ego[team.rows, :own_mechs], ego[team.others, :enemy_mechs]
                )
                alive = observation.mask[team.rows, :own_mechs]
                values[team.rows] = (mech_values * alive).sum(-1) / alive.sum(-1).clamp_min(1)
        return values.view(2, self.count).T
