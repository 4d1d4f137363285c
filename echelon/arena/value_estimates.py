"""What policies expect of the battles that are recorded: the values of their critics, beside the actions."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.arena.stacked_policies import BatchObservation, StackedPolicies
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.heads import Critic


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
        stacked: the policies, which then keep their embeddings; each with the policies in their order.
    """

    def __init__(
        self,
        stacked: Sequence[tuple[StackedPolicies, Sequence[ActorCritic]]],
        battles: Collection[int],
        sizes: tuple[int, int],
        count: int,
    ) -> None:
        self.count = count
        self.followed: list[tuple[StackedPolicies, list[Followed]]] = []
        for decider, policies in stacked:
            own = [
                found
                for policy, places in zip(policies, decider.places, strict=True)
                for side in (0, 1)
                if (found := self._teams_of(policy, decider, places, side, battles, sizes)) is not None
            ]
            decider.keeps_embed = len(own) > 0
            if own:
                self.followed.append((decider, own))

    def _teams_of(
        self,
        policy: ActorCritic,
        decider: StackedPolicies,
        places: range,
        side: int,
        battles: Collection[int],
        sizes: tuple[int, int],
    ) -> Followed | None:
        rows = {at: decider.commanded[at] for at in places}
        at = [at for at, row in rows.items() if row // self.count == side and row % self.count in battles]
        if not at:
            return None
        device = decider.rows.device
        own = torch.tensor([rows[place] for place in at], device=device)
        others = (own + self.count) % (2 * self.count)
        critic = copy.deepcopy(policy.critic).to(device)
        return Followed(critic, torch.tensor(at, device=device), own, others, (sizes[side], sizes[1 - side]))

    def __call__(self, observation: BatchObservation) -> Tensor:
        """`[B, 2]` mean value over the living mechs of blue and of red, once the policies have decided; NaN of teams
        that are not followed."""
        ego = observation.streams["ego"]
        values = ego.new_full((2 * self.count,), float("nan"), dtype=torch.float32)
        for decider, followed in self.followed:
            assert decider.embed is not None
            for team in followed:
                own, enemy = team.mechs
                each = team.critic(decider.embed[team.at, :own], ego[team.rows, :own], ego[team.others, :enemy])
                alive = observation.mask[team.rows, :own]
                values[team.rows] = (each * alive).sum(-1) / alive.sum(-1).clamp_min(1)
        return values.view(2, self.count).T
