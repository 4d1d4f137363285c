"""Assigns the learner and its opponents to the teams of a batch of battles, as one policy of the environment."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.team_policy import TeamPolicy, graph_key_of, memory_spec
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import Winner
from echelon.env.restart import NextMemory
from echelon.learn.padding import pad_mechs, pad_team
from echelon.views.group_policy import for_each_mech, memory_of, team_view

LEARNER = "learner"
"""Name of the learner's entry in the environment's memory."""
TeamSlice = tuple[str, slice]
"""One group (`blue` or `red`) in a range of battles of the batch."""
Side = Literal["both", "blue", "red"]


@dataclass(frozen=True)
class OpponentGroup:
    """An opponent of the learner, in a contiguous range of the batch."""

    name: str
    """Name of its entry in the environment's memory; must be unique."""
    policy: TeamPolicy | None
    """None for self-play: the learner commands both teams and learns from both."""
    battles: int
    """Number of battles; must be even for the learner to play each side in half of them."""


class PolicyAssignment:
    """Assigns a policy to each team of B battles, ordered by opponent: the battles of the first come first.

    G is the number of teams the learner commands. Its rows are ordered by opponent, then by group. Where these teams
    differ in size, they are padded to A mechs, the size of the larger (`echelon.learn.padding`); an opponent that
    commands teams of different size decides for each group by itself, without padding.

    Args:
        side: group the learner commands; with `both`, blue in the first half of each opponent's battles and red in
            the second.
    """

    def __init__(self, learner: TeamPolicy, opponents: Sequence[OpponentGroup], side: Side = "both") -> None:
        self.policies: dict[str, TeamPolicy] = {LEARNER: learner}
        self.teams: dict[str, list[TeamSlice]] = {LEARNER: []}
        self.battles: dict[str, slice] = {}
        """Range of battles of each opponent."""
        self.opponent_rows: dict[str, slice] = {}
        """Range of the learner's rows `[G]` against each opponent."""
        start = 0
        for opponent in opponents:
            battles = slice(start, start + opponent.battles)
            first = {"both": start + opponent.battles // 2, "blue": battles.stop, "red": start}[side]
            halves = (slice(start, first), slice(first, battles.stop))
            rows = self._rows_so_far()
            if opponent.policy is None:
                self.teams[LEARNER] += [(group, battles) for group in GROUPS]
            else:
                self.policies[opponent.name] = opponent.policy
                self.teams[LEARNER] += [p for p in zip(GROUPS, halves, strict=True) if size(p[1]) > 0]
                self.teams[opponent.name] = [p for p in zip(GROUPS[::-1], halves, strict=True) if size(p[1]) > 0]
            self.battles[opponent.name] = battles
            self.opponent_rows[opponent.name] = slice(rows, self._rows_so_far())
            start = battles.stop
        self.num_envs = start
        self.memory = memory_spec(**self.policies)
        # For each group in the order of the batch: a range of battles, its policy, the part of its output.
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        for name, teams in self.teams.items():
            for index, (group, battles) in enumerate(teams):
                self.owners[group].append((battles, name, index))
        for slices in self.owners.values():
            slices.sort(key=lambda part: part[0].start)

    def _rows_so_far(self) -> int:
        return sum(size(battles) for _, battles in self.teams[LEARNER])

    def view(self, tensordict: TensorDictBase, name: str) -> TensorDictBase:
        """Input of one policy, batch `[G, A]` over all teams it commands."""
        return self._view(tensordict, name, self.teams[name])

    def views(self, tensordict: TensorDictBase, name: str) -> list[TensorDictBase]:
        """What a policy is called with, one after the other: one view, or one a group for an opponent that commands
        teams of different size."""
        teams = self.teams[name]
        is_one = name == LEARNER or len(self._team_sizes(tensordict, name)) == 1
        return [self._view(tensordict, name, slices) for slices in ([teams] if is_one else [[team] for team in teams])]

    def _view(self, tensordict: TensorDictBase, name: str, teams: Sequence[TeamSlice]) -> TensorDictBase:
        mechs = most_mechs(tensordict, teams)
        team_views = [tensordict.get(group).select("observation", "mask")[battles] for group, battles in teams]
        padded = [pad_team(team, mechs) for team in team_views]
        telemetry = torch.cat([for_each_mech(tensordict, 1)[battles] for _, battles in teams])
        team: TensorDictBase = TensorDict.cat(padded, 0)
        team.set("telemetry", telemetry.expand(-1, team.shape[1], -1, -1))
        return team.set("memory", self._memory(tensordict, name, teams))

    def part(self, tensordict: TensorDictBase, name: str, group: str, battles: slice) -> TensorDictBase:
        """`view` of one team of a policy, without a copy."""
        return team_view(tensordict, group, name)[battles]

    def memory_rows(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the learner's mechs remember, batch `[G, A]`."""
        return self._memory(tensordict, LEARNER, self.teams[LEARNER])

    @staticmethod
    def _memory(tensordict: TensorDictBase, name: str, teams: Sequence[TeamSlice]) -> TensorDictBase:
        mechs = most_mechs(tensordict, teams)
        return TensorDict.cat(
            [pad_team(memory_of(tensordict, group, name)[battles], mechs) for group, battles in teams], 0
        )

    def decide(
        self,
        tensordict: TensorDictBase,
        remembered: list[NextMemory] | None = None,
        view: TensorDictBase | None = None,
    ) -> TensorDictBase:
        """Write action and next memory of every team; returns the learner's output, batch `[G, A]`.

        Args:
            remembered: where next memories are put, in place of `tensordict`: a piece for each team of a policy, and
                nothing for the teams that it does not command.
            view: `view` of the learner, where that is there already.
        """
        learner_views = {} if view is None else {LEARNER: [view]}
        outputs = {
            name: [policy(policy_view) for policy_view in learner_views.get(name) or self.views(tensordict, name)]
            for name, policy in self.policies.items()
        }
        per_slice = {name: self._split(name, decisions) for name, decisions in outputs.items()}
        for group, owners in self.owners.items():
            mechs = tensordict.get(group).shape[1]
            actions = [per_slice[name][index].get("action")[:, :mechs] for _, name, index in owners]
            tensordict.set((group, "action"), torch.cat(actions, 0))
            memories = [
                NextMemory(
                    (group, "memory", name, key),
                    battles.start,
                    per_slice[name][index]["next", "memory", key][:, :mechs],
                )
                for battles, name, index in owners
                if name in self.memory.keys()
                for key in self.memory[name].keys()
            ]
            if remembered is None:
                self._write_memory(tensordict, memories)
            else:
                remembered += memories
        return outputs[LEARNER][0]

    def _split(self, name: str, decisions: Sequence[TensorDictBase]) -> list[TensorDictBase]:
        """Actions and next memories of a policy, by `TeamSlice`."""
        parts = [decision.select("action", ("next", "memory"), strict=False) for decision in decisions]
        return list(parts[0].split([size(battles) for _, battles in self.teams[name]])) if len(parts) == 1 else parts

    @staticmethod
    def _write_memory(tensordict: TensorDictBase, pieces: Sequence[NextMemory]) -> None:
        """Write next memories in the battles of their policies; elsewhere they stay unchanged."""
        merged: dict[tuple[str, ...], Tensor] = {}
        for key, start, value in pieces:
            if key not in merged:
                merged[key] = tensordict.get(key).clone()
            merged[key][start : start + len(value)] = value
        for key, merged_value in merged.items():
            tensordict.set(("next", *key), merged_value)

    def rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[G, ...]` values of the learner's teams, from values `[B, ...]` of both groups."""
        return torch.cat([per_group[group][battles] for group, battles in self.teams[LEARNER]], 0)

    def mech_rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[G, A, ...]` values of the learner's mechs, padded, from values `[B, A_g, ...]` of both groups."""
        mechs = most_mechs(per_group, self.teams[LEARNER])
        return self.rows({group: pad_mechs(per_group[group], mechs) for group, _ in self.teams[LEARNER]})

    def enemy_rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[G, E, ...]` values of the mechs that the learner's teams fight against, as in `mech_rows`."""
        blue, red = GROUPS
        return self.mech_rows({blue: per_group[red], red: per_group[blue]})

    def exists(self, tensordict: TensorDictBase) -> Tensor | None:
        """`[G, A]` bool, which of the learner's mechs are no padding; None where all its teams are of one size."""
        if len(self._team_sizes(tensordict, LEARNER)) == 1:
            return None
        return self.mech_rows({group: torch.ones_like(tensordict.get((group, "mask"))) for group in GROUPS})

    def graph_key(self) -> Hashable | None:
        """What decisions depend on beside tensors that stay where they are; None where a policy does not tell."""
        keys = [graph_key_of(policy) for policy in self.policies.values()]
        return None if None in keys else tuple(keys)

    def _team_sizes(self, tensordict: TensorDictBase, name: str) -> set[int]:
        return {tensordict.get(group).shape[1] for group, _ in self.teams[name]}

    def num_mechs(self, tensordict: TensorDictBase) -> int:
        """Number of mechs the learner commands, in all battles."""
        return sum(size(battles) * tensordict.get(group).shape[1] for group, battles in self.teams[LEARNER])

    def each_team(self, per_battle: Tensor) -> Tensor:
        """`[G, ...]` from `[B, ...]`: the value of a battle, repeated for every team the learner commands in it."""
        return self.rows(dict.fromkeys(GROUPS, per_battle))

    def won_and_lost(self, winner: Tensor) -> tuple[Tensor, Tensor]:
        """`[G]` bool each, from `winner [B]`: whether each of the learner's teams has won or lost."""
        blue, red = winner == int(Winner.BLUE), winner == int(Winner.RED)
        return self.rows({"blue": blue, "red": red}), self.rows({"blue": red, "red": blue})


def most_mechs(by_group: Mapping[str, Any] | TensorDictBase, teams: Sequence[TeamSlice]) -> int:
    """A, the size of the largest of some teams, from values `[B, A_g, ...]` of both groups."""
    return max(int(by_group[group].shape[1]) for group, _ in teams)


def size(battles: slice) -> int:
    return int(battles.stop - battles.start)


SLOT = "slot"
"""Memory entry with the slot of the battle, counted from 1; 0 before its first decision. A battle chooses a slot at its
start and keeps it: a slot is given to another opponent only when no running battle uses it."""


def current_slot(memory: Tensor, chosen: Tensor | int) -> Tensor:
    """`[B, A, 1]` slot of each battle, counted from 1: that in `memory [B, A, 1]`, or `chosen + 1` at its start."""
    return torch.where(memory == 0, chosen + 1, memory)


def count_readers(memory: TensorDictBase, blocks: int, slots: int) -> Tensor:
    """`[K, S]` number of battles that use each of S slots, of K equal blocks of battles.

    Args:
        memory: memory of the teams that the opponents command, batch `[B, A]`.
    """
    slot = memory.get(SLOT)[:, 0, 0].view(blocks, -1)
    return torch.stack([(slot == i + 1).sum(1) for i in range(slots)], 1)
