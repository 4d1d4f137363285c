"""Assign the learner and its opponents to the teams of a batch of battles, as one policy of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.agents.env_teams import EnvTeams, TeamSlice, pad_mechs, size
from echelon.agents.team_policy import TeamPolicy
from echelon.env.leaves import Leaves, Shown
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import Winner

LEARNER = "learner"
"""Name of the learner's entry in the environment's memory."""
Side = Literal["both", "blue", "red"]


@dataclass(frozen=True)
class OpponentGroup:
    """An opponent of the learner and its contiguous range of battles."""

    name: str
    """Unique name of the opponent's entry in the environment's memory."""
    policy: TeamPolicy | None
    """The opponent; None for self-play, where the learner commands both teams and learns from both."""
    battles: int
    """Number of battles; must be even if the learner plays each side in half of them."""


class PolicyAssignment(EnvTeams):
    """Assigns a policy to each team of B battles, which are ordered by opponent.

    G is the number of teams commanded by the learner. The learner's rows, one per team, are ordered by opponent, then
    by group.

    Args:
        side: group commanded by the learner. With `both`, the learner commands blue in the first half of each
            opponent's battles and red in the second half.
    """

    def __init__(self, learner: TeamPolicy, opponents: Sequence[OpponentGroup], side: Side = "both") -> None:
        policies, own, teams = {LEARNER: learner}, list[TeamSlice](), dict[str, list[TeamSlice]]()
        self.battles: dict[str, slice] = {}
        """Range of battles of each opponent."""
        self.opponent_rows: dict[str, slice] = {}
        """Range of the learner's rows `[G]` against each opponent."""
        start = rows = 0
        for opponent in opponents:
            battles = slice(start, start + opponent.battles)
            first = {"both": start + opponent.battles // 2, "blue": battles.stop, "red": start}[side]
            halves = (slice(start, first), slice(first, battles.stop))
            if opponent.policy is None:
                own += [TeamSlice(group, battles) for group in GROUPS]
            else:
                policies[opponent.name] = opponent.policy
                own += slices_of(GROUPS, halves)
                teams[opponent.name] = slices_of(GROUPS[::-1], halves)
            self.battles[opponent.name] = battles
            first_row, rows = rows, sum(size(part) for _, part in own)
            self.opponent_rows[opponent.name] = slice(first_row, rows)
            start = battles.stop
        self.num_envs = start
        super().__init__(policies, {LEARNER: own, **teams})
        starts = [0, *(battles.stop for _, battles in own)]
        self.is_one_a_battle = all(battles.start == at for (_, battles), at in zip(own, starts, strict=False))
        """Whether the learner commands exactly one team per battle, in the order of the battles."""

    def memory_rows(self, shown: Shown) -> Leaves:
        """Return the recurrent memory of the learner's mechs, `[G, A, ...]` each, keyed by name."""
        pieces = self.pieces(shown, LEARNER)
        return {key[1:]: torch.cat(parts) for key, parts in pieces.items() if key[0] == "memory"}

    def rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """Return the values of the learner's teams, `[G, ...]`, from the values of both groups, `[B, ...]` each."""
        return torch.cat([per_group[group][battles] for group, battles in self.teams[LEARNER]], 0)

    def mech_rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """Return the padded values of the learner's mechs, `[G, A, ...]`, from the values of both groups, `[B, A_g,
        ...]` each.
        """
        mechs = max(per_group[group].shape[1] for group, _ in self.teams[LEARNER])
        return self.rows({group: pad_mechs(per_group[group], mechs) for group, _ in self.teams[LEARNER]})

    def enemy_rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """Return the padded values of the enemies of the learner's teams, `[G, E, ...]`, see `mech_rows`."""
        blue, red = GROUPS
        return self.mech_rows({blue: per_group[red], red: per_group[blue]})

    def exists(self, shown: Shown) -> Tensor | None:
        """Return a mask `[G, A]` bool, False for padding; None if all teams of the learner have the same size."""
        if len(self.team_sizes(shown, LEARNER)) == 1:
            return None
        return self.mech_rows({group: torch.ones_like(shown.get((group, "mask"))) for group in GROUPS})

    def num_mechs(self, shown: Shown) -> int:
        """Return the number of mechs that the learner commands in all battles together."""
        return sum(size(battles) * shown.get((group, "mask")).shape[1] for group, battles in self.teams[LEARNER])

    def each_team(self, per_battle: Tensor) -> Tensor:
        """Repeat the value of each battle, `[B, ...]`, for each team that the learner commands in it; return `[G,
        ...]`. If the learner commands one team per battle, return the tensor itself.
        """
        if self.is_one_a_battle:
            return per_battle
        return self.rows(dict.fromkeys(GROUPS, per_battle))

    def won_and_lost(self, winner: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether each team of the learner has won, and whether it has lost, `[G]` bool each, from
        `winner [B]`.
        """
        blue, red = winner == int(Winner.BLUE), winner == int(Winner.RED)
        return self.rows({"blue": blue, "red": red}), self.rows({"blue": red, "red": blue})


def slices_of(groups: Sequence[str], halves: Sequence[slice]) -> list[TeamSlice]:
    """Pair the first of `groups` with the first half of the battles, and the second with the other half; omit empty
    halves.
    """
    return [TeamSlice(group, half) for group, half in zip(groups, halves, strict=True) if size(half) > 0]


SLOT = "slot"
"""Memory entry: slot of the battle, counted from 1; 0 before its first decision. A battle draws a slot at its start and
keeps it. A slot gets another opponent only when no running battle uses it."""


def current_slot(memory: Tensor, chosen: Tensor | int) -> Tensor:
    """Return the slot of each battle, counted from 1, `[B, A, 1]`. The value is `memory [B, A, 1]`, or at the start of
    a battle `chosen + 1`.
    """
    return torch.where(memory == 0, chosen + 1, memory)


def count_readers(memory: TensorDictBase, blocks: int, slots: int) -> Tensor:
    """Return the number of battles that use each of S slots, in each of K equal blocks of battles, `[K, S]`.

    Args:
        memory: memory of the teams commanded by the opponents, batch `[B, A]`.
    """
    slot = memory.get(SLOT)[:, 0, 0].view(blocks, -1)
    return torch.stack([(slot == i + 1).sum(1) for i in range(slots)], 1)
