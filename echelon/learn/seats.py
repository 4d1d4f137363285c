"""Who commands which team in training: learner and opponent as one policy of the environment."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.seat import TeamPolicy, drawers, team_view
from echelon.env.layout import GROUPS
from echelon.env.outcome import Winner

LEARNER, OPPONENT = "learner", "opponent"
"""Drawers of the environment's memory."""
Place = tuple[str, slice]
"""A team over some battles: its group, and where they stand in the batch."""


class Seats:
    """The learner is blue in the first half of the battles and red in the rest; the opponent takes the other team.

    Without an opponent the learner commands both teams of every battle, and learns from both.

    Args:
        learner: the policy that is trained.
        opponent: the policy it meets, or None for itself.
        num_envs: battles, B, even.
    """

    def __init__(self, learner: TeamPolicy, opponent: TeamPolicy | None, num_envs: int) -> None:
        first, rest = slice(0, num_envs // 2), slice(num_envs // 2, num_envs)
        everywhere = slice(0, num_envs)
        self.policies: dict[str, TeamPolicy] = {LEARNER: learner}
        self.places: dict[str, tuple[Place, Place]] = {LEARNER: (("blue", everywhere), ("red", everywhere))}
        if opponent is not None:
            self.policies[OPPONENT] = opponent
            self.places = {LEARNER: (("blue", first), ("red", rest)), OPPONENT: (("blue", rest), ("red", first))}
        self.memory = drawers(**self.policies)
        # Who commands a group, battle by battle: the parts of a policy's decision in the order of the batch.
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        for name, places in self.places.items():
            for half, (group, battles) in enumerate(places):
                self.owners[group].append((battles, name, half))
        for parts in self.owners.values():
            parts.sort(key=lambda part: part[0].start)

    def view(self, tensordict: TensorDictBase, drawer: str) -> TensorDictBase:
        """`[R, A]` what one policy reads of all teams it commands."""
        parts = [team_view(tensordict, group, drawer)[battles] for group, battles in self.places[drawer]]
        return torch.cat(parts, 0)

    def decide(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write every team's action and memory; returns what the learner decided, `[R, A]`."""
        decided = {name: policy(self.view(tensordict, name)) for name, policy in self.policies.items()}
        halves = {name: decision.chunk(2, 0) for name, decision in decided.items()}
        for group, parts in self.owners.items():
            actions = [halves[name][half].get("action") for _, name, half in parts]
            tensordict.set((group, "action"), torch.cat(actions, 0))
            for battles, name, half in parts:
                self._remember(tensordict, group, name, battles, halves[name][half].get(("next", "memory")))
        return decided[LEARNER]

    def _remember(self, tensordict: TensorDictBase, group: str, name: str, battles: slice, new: TensorDictBase) -> None:
        """Keep a policy's memory for the battles it commands, as it was for the others."""
        kept = tensordict.get((group, "memory", name))

        def merge(old: Tensor, fresh: Tensor) -> Tensor:
            return torch.cat((old[: battles.start], fresh, old[battles.stop :]), 0)

        merged = {key: merge(kept.get(key), new.get(key)) for key in new.keys()}
        memory = TensorDict(merged, kept.batch_size, device=kept.device)
        tensordict.set(("next", group, "memory", name), memory)

    def rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[R, ...]` the learner's part of `[B, ...]` values of both groups."""
        return torch.cat([per_group[group][battles] for group, battles in self.places[LEARNER]], 0)

    def each_team(self, per_battle: Tensor) -> Tensor:
        """`[R, ...]` a value of each battle `[B, ...]`, one entry for every team the learner commands in it."""
        return self.rows(dict.fromkeys(GROUPS, per_battle))

    def won_and_lost(self, winner: Tensor) -> tuple[Tensor, Tensor]:
        """`[R]` bool each, from `winner [B]`: the battles the learner won and lost, one entry a team it commands."""
        blue, red = winner == int(Winner.BLUE), winner == int(Winner.RED)
        return self.rows({"blue": blue, "red": red}), self.rows({"blue": red, "red": blue})
