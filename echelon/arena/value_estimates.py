"""Value estimates for recorded battles, by the critics of the policies in a match."""

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
class RecordedTeams:
    """Recorded teams of one policy on one side."""

    critic: Critic
    at: Tensor
    """`[K]` int64, indices of these teams among the teams of `StackedPolicies`."""
    rows: Tensor
    """`[K]` int64, rows of these teams in the batch."""
    others: Tensor
    """`[K]` int64, rows of the enemy teams, whose state a central critic reads."""
    mechs: tuple[int, int]
    """Numbers of mechs in the team and in the enemy team."""


class ValueEstimates:
    """Value estimates for the teams of recorded battles that an `ActorCritic` commands.

    The values are in the critic's normalised units, because a policy does not contain the normalisation of its
    training. Teams of other policies have no values.

    Args:
        stacked: the batched networks, which store their embeddings from now on.
    """

    def __init__(
        self,
        stacked: Sequence[StackedPolicies],
        battles: Collection[int],
        sizes: tuple[int, int],
        count: int,
    ) -> None:
        self.battles, self.sizes, self.count = battles, sizes, count
        self.followed: list[tuple[StackedPolicies, list[RecordedTeams]]] = []
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

    def _teams_of(self, policy: Stackable, decider: StackedPolicies, places: range, side: int) -> RecordedTeams | None:
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
        return RecordedTeams(critic, torch.tensor(positions, device=device), team_rows, enemy_rows, sizes)

    def __call__(self, observation: TeamObservation) -> Tensor:
        """Return the mean value over the living mechs of blue and red, `[B, 2]`; call this after the policies have
        decided.

        Teams without an estimate have NaN.
        """
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
