"""Teams in the TensorDict of an environment: which policy commands which of them, and the memory that travels there.

A policy commands slices of the battles. What it remembers lies under `(group, "memory", name)`: the restart of the
environment clears it, and checkpoints and captured CUDA graphs hold it.

    (group, ...) [B, A_g] --view--> team [G, A] --policy--> action, next memory --decide--> (group, ...) [B, A_g]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.nn.functional import pad

from echelon.agents.team_policy import TeamPolicy, graph_key_of, memory_spec
from echelon.env.observation.layout import GROUPS
from echelon.env.restart import NextMemory

TELEMETRY = "telemetry"


class TeamSlice(NamedTuple):
    """One group (`blue` or `red`) in a range of battles of the batch."""

    group: str
    battles: slice


def size(battles: slice) -> int:
    return int(battles.stop - battles.start)


def pad_mechs(leaf: Tensor, mechs: int) -> Tensor:
    """`[R, mechs, ...]` from `[R, A, ...]`: zeros, or False, behind the A mechs; the tensor itself if A is `mechs`."""
    missing = mechs - leaf.shape[1]
    return leaf if missing == 0 else pad(leaf, (*[0, 0] * (leaf.dim() - 2), 0, missing))


def concat_pieces(pieces: Sequence[Sequence[Tensor]], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """Put pieces together `[G, ...]`, each whole in its dtype."""
    return [torch.cat([tensor.to(dtype) for tensor in tensors]) for tensors, dtype in zip(pieces, dtypes, strict=True)]


def memory_of(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Recurrent state of the policy called `name`, batch `[B, A]`; empty for a policy without state."""
    memory = tensordict.get((group, "memory", name), None)
    if memory is None:
        team = tensordict.get(group)
        return TensorDict({}, team.batch_size, device=team.device)
    return memory.copy()


def for_each_mech(tensordict: TensorDictBase, mechs: int) -> Tensor:
    """`[B, A, 16, 16]` telemetry map, expanded to the mechs of a team without a copy."""
    telemetry = tensordict.get(TELEMETRY)
    return telemetry[:, None].expand(-1, mechs, -1, -1)


def team_view(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Input of a team policy, batch `[B, A]`: `observation`, `mask`, `telemetry` and its own `memory`."""
    team = tensordict.get(group).select("observation", "mask").copy()
    team.set(TELEMETRY, for_each_mech(tensordict, team.shape[1]))
    return team.set("memory", memory_of(tensordict, group, name))


class EnvTeams:
    """Policies and the teams that each commands, as one policy of an environment.

    The first policy is called once: where its teams differ in size, they are padded to A mechs, the size of the larger.
    Any other policy whose teams differ in size decides for each of them by itself, without padding.

    Args:
        policies: by the names of their entries in the environment's memory.
        teams: by name the teams of each policy, G of them; every team of every battle belongs to one policy.
    """

    def __init__(self, policies: Mapping[str, TeamPolicy], teams: Mapping[str, Sequence[TeamSlice]]) -> None:
        self.policies, self.teams, self.first = policies, teams, next(iter(policies))
        self.memory = memory_spec(**policies)
        """Spec of the environment's memory."""
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        """By group, in the order of the batch: a range of battles, its policy, the part of its output."""
        for name, slices in teams.items():
            for index, (group, battles) in enumerate(slices):
                self.owners[group].append((battles, name, index))
        for owners in self.owners.values():
            owners.sort(key=lambda owner: owner[0].start)

    def view(
        self,
        tensordict: TensorDictBase,
        name: str,
        teams: Sequence[TeamSlice] | None = None,
        dtype: torch.dtype | None = None,
        concat: Callable[..., list[Tensor]] = concat_pieces,
    ) -> TensorDict:
        """Input of one policy, batch `[G, A]` over `teams`, by default all that it commands.

        Args:
            dtype: of streams and telemetry; by default their own.
            concat: the function `concat_pieces`, or a graph of it.
        """
        parts = [team_view(tensordict, group, name)[battles] for group, battles in teams or self.teams[name]]
        mechs = max(part.shape[1] for part in parts)
        keys = [key for key in parts[0].keys(True, True) if key != TELEMETRY]
        pieces = [[pad_mechs(part.get(key), mechs) for part in parts] for key in keys]
        pieces.append([part.get(TELEMETRY)[:, 0] for part in parts])
        own_dtypes = [tensors[0].dtype for tensors in pieces]
        is_kept = [
            kind == torch.bool or key[0] == "memory" for key, kind in zip([*keys, TELEMETRY], own_dtypes, strict=True)
        ]
        dtypes = [own if kept or dtype is None else dtype for own, kept in zip(own_dtypes, is_kept, strict=True)]
        *leaves, telemetry = concat(pieces, dtypes)
        shape, device = (len(telemetry), mechs), telemetry.device
        # Without a device the inner one would be moved: tensordict then enters `torch.device` into a table whose length
        # Dynamo guards, and all that was compiled before is compiled again.
        team = TensorDict({"memory": TensorDict({}, shape, device=device)}, shape, device=device)
        for key, leaf in zip(keys, leaves, strict=True):
            team.set(key, leaf)
        return team.set(TELEMETRY, telemetry[:, None].expand(*shape, -1, -1))

    def views(self, tensordict: TensorDictBase, name: str) -> list[TensorDictBase]:
        """What a policy is called with, one after the other: one view, or one for each of its teams."""
        teams = self.teams[name]
        is_one = name == self.first or len(self.team_sizes(tensordict, name)) == 1
        return [self.view(tensordict, name, slices) for slices in ([teams] if is_one else [[team] for team in teams])]

    def decide(
        self,
        tensordict: TensorDictBase,
        remembered: list[NextMemory] | None = None,
        view: TensorDictBase | None = None,
    ) -> TensorDictBase:
        """Write action and next memory of every team; returns the output of the first policy, batch `[G, A]`.

        Args:
            remembered: where next memories are put, in place of `tensordict`: a piece for each team of a policy, and
                nothing for the teams that it does not command.
            view: `view` of the first policy, where that is there already.
        """
        given = {} if view is None else {self.first: [view]}
        outputs = {
            name: [policy(team) for team in given.get(name) or self.views(tensordict, name)]
            for name, policy in self.policies.items()
        }
        by_team = {name: self._by_team(name, decisions) for name, decisions in outputs.items()}
        memories: list[NextMemory] = []
        for group, owners in self.owners.items():
            mechs, actions = tensordict.get(group).shape[1], []
            for battles, name, index in owners:
                output = by_team[name][index]
                actions.append(output.get("action")[:, :mechs])
                for key in self.memory[name].keys() if name in self.memory.keys() else ():
                    next_memory = output["next", "memory", key][:, :mechs]
                    memories.append(NextMemory((group, "memory", name, key), battles.start, next_memory))
            tensordict.set((group, "action"), torch.cat(actions, 0))
        if remembered is None:
            write_memory(tensordict, memories)
        else:
            remembered += memories
        return outputs[self.first][0]

    def _by_team(self, name: str, decisions: Sequence[TensorDictBase]) -> list[TensorDictBase]:
        """Actions and next memories of a policy, by `TeamSlice`."""
        parts = [decision.select("action", ("next", "memory"), strict=False) for decision in decisions]
        return list(parts[0].split([size(battles) for _, battles in self.teams[name]])) if len(parts) == 1 else parts

    def team_sizes(self, by_group: Mapping[str, Any] | TensorDictBase, name: str) -> set[int]:
        """Numbers of mechs in the teams of a policy, from values `[B, A_g, ...]` of both groups."""
        return {int(by_group[group].shape[1]) for group, _ in self.teams[name]}

    def graph_key(self) -> Hashable | None:
        """What decisions depend on beside tensors that stay where they are; None where a policy does not tell."""
        keys = [graph_key_of(policy) for policy in self.policies.values()]
        return None if None in keys else tuple(keys)


def write_memory(tensordict: TensorDictBase, pieces: Sequence[NextMemory]) -> None:
    """Write next memories in the battles of their policies; elsewhere they stay unchanged."""
    merged: dict[tuple[str, ...], Tensor] = {}
    for key, start, value in pieces:
        if key not in merged:
            merged[key] = tensordict.get(key).clone()
        merged[key][start : start + len(value)] = value
    for key, merged_value in merged.items():
        tensordict.set(("next", *key), merged_value)
