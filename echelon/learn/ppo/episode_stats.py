"""Statistics of the battles that ended in a rollout, summed on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.leaves import Shown, leaves_from
from echelon.env.observation.layout import GROUPS
from echelon.learn.opponents.assignment import SLOT, PolicyAssignment
from echelon.learn.opponents.named import NamedOpponents

SUMS = ("battles", "won", "lost", "decisions")
OPPONENT_SUMS = ("battles", "won")


def split_terms(terms: Tensor, num_extra: int) -> tuple[Tensor, ...]:
    """Split `[..., K]` reward terms into the built-in ones and the last `num_extra`, which are custom.

    The two parts are reduced separately, because torch's order of summation depends on the row width. A custom term of
    weight 0 must not change any bit of the other sums.
    """
    return terms.tensor_split([terms.shape[-1] - num_extra], -1)


class EpisodeStats:
    """Sums over the battles that ended, counted once per team of the learner.

    `sums` contains `SUMS`, `stats [K]` (`outcome.stat_names`), `returns [R]` (undiscounted return of each reward term,
    mean over the mechs of a team; custom terms last) and `battles_NAME` and `won_NAME` by opponent, for a scripted
    opponent only against its newest tier. With `by_side`, `sums` also contains `battles_as_SIDE` and `won_as_SIDE`.
    """

    def __init__(
        self,
        device: torch.device,
        assignment: PolicyAssignment,
        num_terms: int,
        num_stats: int,
        num_extra: int = 0,
        by_side: bool = False,
    ) -> None:
        self.assignment = assignment
        self.sides = tuple(GROUPS) if by_side else ()
        self.num_extra = num_extra
        zero = torch.zeros((), dtype=torch.float32, device=device)
        self.sums = {name: zero.clone() for name in SUMS}
        self.sums |= {f"{name}_{opponent}": zero.clone() for opponent in assignment.battles for name in OPPONENT_SUMS}
        self.sums |= {f"{name}_as_{side}": zero.clone() for side in self.sides for name in OPPONENT_SUMS}
        self.sums["stats"] = zero.new_zeros(num_stats)
        self.sums["returns"] = zero.new_zeros(num_terms)

    def clear(self) -> None:
        """Reset all sums in place."""
        torch._foreach_zero_(list(self.sums.values()))

    def count(self, td: Shown, after: Shown, returns: Tensor) -> None:
        """Add the battles that ended between `td` and `after`; `returns [G, K]` must be 0 for other battles."""
        assignment, after = self.assignment, leaves_from(after)
        done = after["done",][:, 0].float()
        won, lost = assignment.won_and_lost(after["outcome", "winner"][:, 0])
        stats, decisions = after["outcome", "stats"], after["outcome", "decisions"][:, 0].float()
        ended = assignment.each_team(done)
        self.sums["battles"] += ended.sum()
        self.sums["won"] += won.sum()
        self.sums["lost"] += lost.sum()
        self.sums["decisions"] += assignment.each_team(decisions).sum()
        self.sums["stats"] += assignment.rows({"blue": stats[:, 0], "red": stats[:, 1]}).sum(0)
        self.sums["returns"] += torch.cat([terms.sum(0) for terms in split_terms(returns, self.num_extra)])
        for side in self.sides:
            is_side = assignment.rows({group: torch.full_like(done, float(group == side)) for group in GROUPS})
            self.sums[f"battles_as_{side}"] += (ended * is_side).sum()
            self.sums[f"won_as_{side}"] += (won * is_side).sum()
        for opponent, teams in assignment.opponent_rows.items():
            counts = self.against_newest(opponent, td) * ended[teams]
            self.sums[f"battles_{opponent}"] += counts.sum()
            self.sums[f"won_{opponent}"] += (counts * won[teams]).sum()

    def against_newest(self, opponent: str, td: Shown) -> Tensor:
        """Return 1 for teams that played against the opponent's newest version, else 0; a scalar or `[G']`."""
        policy = self.assignment.policies.get(opponent)
        if not isinstance(policy, NamedOpponents):
            return torch.ones((), dtype=torch.float32, device=self.sums["battles"].device)
        versions = [
            td.get((group, "memory", opponent, SLOT))[battles, 0, 0]
            for group, battles in self.assignment.teams[opponent]
        ]
        return (torch.cat(versions) == policy.newest + 1).float()
