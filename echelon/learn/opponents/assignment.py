"""Who commands which team in which battle: the learner and those it meets, as one policy of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.group_policy import TeamPolicy, for_each_mech, memory_of, memory_spec
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import Winner

LEARNER = "learner"
"""The learner's drawer in the environment's memory."""
TeamSlice = tuple[str, slice]
"""A team over some battles: its group, and where they stand in the batch."""
Side = Literal["both", "blue", "red"]


@dataclass(frozen=True)
class OpponentGroup:
    """Somebody the learner meets, in so many battles that stand side by side."""

    name: str
    """Its drawer in the environment's memory; no two share one."""
    policy: TeamPolicy | None
    """None for the learner itself, which then commands both teams and learns from both."""
    battles: int
    """Even, if the learner is to be blue in half of them and red in the rest."""


class PolicyAssignment:
    """Who commands each team of all battles: those of the first rival come first, then those of the second, and so on.

    Args:
        learner: the policy that is trained.
        rivals: whom it meets.
        side: teams the learner commands: blue in the first half of a rival's battles and red in the rest, or one.
    """

    def __init__(self, learner: TeamPolicy, rivals: Sequence[OpponentGroup], side: Side = "both") -> None:
        self.policies: dict[str, TeamPolicy] = {LEARNER: learner}
        self.places: dict[str, list[TeamSlice]] = {LEARNER: []}
        self.met: dict[str, slice] = {}
        """Battles of each rival."""
        self.of_rival: dict[str, slice] = {}
        """Rows of the learner's teams against each rival."""
        start = 0
        for rival in rivals:
            battles = slice(start, start + rival.battles)
            first = {"both": start + rival.battles // 2, "blue": battles.stop, "red": start}[side]
            halves = (slice(start, first), slice(first, battles.stop))
            rows = self._rows_so_far()
            if rival.policy is None:
                self.places[LEARNER] += [(group, battles) for group in GROUPS]
            else:
                self.policies[rival.name] = rival.policy
                self.places[LEARNER] += [p for p in zip(GROUPS, halves, strict=True) if size(p[1]) > 0]
                self.places[rival.name] = [p for p in zip(GROUPS[::-1], halves, strict=True) if size(p[1]) > 0]
            self.met[rival.name] = battles
            self.of_rival[rival.name] = slice(rows, self._rows_so_far())
            start = battles.stop
        self.num_envs = start
        self.memory = memory_spec(**self.policies)
        # Who commands a group, battle by battle: the parts of a policy's decision in the order of the batch.
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        for name, places in self.places.items():
            for part, (group, battles) in enumerate(places):
                self.owners[group].append((battles, name, part))
        for parts in self.owners.values():
            parts.sort(key=lambda part: part[0].start)

    def _rows_so_far(self) -> int:
        return sum(size(battles) for _, battles in self.places[LEARNER])

    def view(self, tensordict: TensorDictBase, name: str) -> TensorDictBase:
        """`[G, A]` what one policy reads of all teams it commands."""
        places = self.places[name]
        parts = [tensordict.get(group).select("observation", "mask")[battles] for group, battles in places]
        memories = [memory_of(tensordict, group, name)[battles] for group, battles in places]
        ground = torch.cat([for_each_mech(tensordict, 1)[battles] for _, battles in places])
        team: TensorDictBase = TensorDict.cat(parts, 0)
        team.set("telemetry", ground.expand(-1, team.shape[1], -1, -1))
        return team.set("memory", TensorDict.cat(memories, 0))

    def decide(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write every team's action and memory; returns what the learner decided, `[G, A]`."""
        decided = {name: policy(self.view(tensordict, name)) for name, policy in self.policies.items()}
        parts = {
            name: decision.select("action", ("next", "memory"), strict=False).split(self._sizes(name))
            for name, decision in decided.items()
        }
        for group, owners in self.owners.items():
            actions = [parts[name][part].get("action") for _, name, part in owners]
            tensordict.set((group, "action"), torch.cat(actions, 0))
            for name in self.memory.keys():
                own = [(battles, parts[name][part]) for battles, owner, part in owners if owner == name]
                fresh = [(battles, decision.get(("next", "memory"))) for battles, decision in own]
                self._remember(tensordict, group, str(name), fresh)
        return decided[LEARNER]

    def _sizes(self, name: str) -> list[int]:
        return [size(battles) for _, battles in self.places[name]]

    def _remember(
        self, tensordict: TensorDictBase, group: str, name: str, fresh: list[tuple[slice, TensorDictBase]]
    ) -> None:
        """Keep a policy's memory for the battles it commands, as it was for the others."""
        if not fresh:
            return
        kept = tensordict.get((group, "memory", name))

        def merge(key: str) -> Tensor:
            old, pieces, at = kept.get(key), [], 0
            for battles, new in fresh:
                pieces += [old[at : battles.start], new.get(key)]
                at = battles.stop
            return torch.cat([*pieces, old[at:]], 0)

        merged = TensorDict({key: merge(key) for key in kept.keys()}, kept.batch_size, device=kept.device)
        tensordict.set(("next", group, "memory", name), merged)

    def rows(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[G, ...]` the learner's part of `[B, ...]` values of both groups."""
        return torch.cat([per_group[group][battles] for group, battles in self.places[LEARNER]], 0)

    def facing(self, per_group: dict[str, Tensor]) -> Tensor:
        """`[G, ...]` what `rows` would give the learner's enemies."""
        blue, red = GROUPS
        return self.rows({blue: per_group[red], red: per_group[blue]})

    def each_team(self, per_battle: Tensor) -> Tensor:
        """`[G, ...]` a value of each battle `[B, ...]`, one entry for every team the learner commands in it."""
        return self.rows(dict.fromkeys(GROUPS, per_battle))

    def won_and_lost(self, winner: Tensor) -> tuple[Tensor, Tensor]:
        """`[G]` bool each, from `winner [B]`: the battles the learner won and lost, one entry a team it commands."""
        blue, red = winner == int(Winner.BLUE), winner == int(Winner.RED)
        return self.rows({"blue": blue, "red": red}), self.rows({"blue": red, "red": blue})


def size(battles: slice) -> int:
    """How many battles."""
    return int(battles.stop - battles.start)
