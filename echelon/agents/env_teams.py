"""Teams in the TensorDict of an environment: which policy commands which of them, and the memory that travels there.

A policy commands slices of the battles. What it remembers lies under `(group, "memory", name)`: the restart of the
environment clears it, and checkpoints and captured CUDA graphs hold it.

    (group, ...) [B, A_g] --view--> team [G, A] --policy--> action, next memory --decide--> (group, ...) [B, A_g]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.nn.functional import pad

from echelon.agents.team_policy import TeamPolicy, graph_key_of, is_pure, memory_spec
from echelon.env.blocks import workers
from echelon.env.leaves import Leaves, Shown, leaves_from, nested
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


class TeamsDecision(NamedTuple):
    """What all teams decided."""

    first: TensorDictBase
    """Output of the first policy, batch `[G, A]`."""
    actions: Leaves
    """`(group, "action") [B, A_g, D]`."""
    memories: list[NextMemory]
    """What is remembered next: a piece for each team of a policy."""


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
        self.threads = 1
        """Threads of a CPU that policies may decide on side by side, where they are pure functions of what they see."""
        self.memory = memory_spec(**policies)
        """Spec of the environment's memory."""
        self.memory_leaves: dict[str, list[tuple[str, ...]]] = {name: [] for name in policies}
        """By policy the keys of what it remembers."""
        for key in self.memory.keys(True, True):
            self.memory_leaves[key[0]].append(key[1:])
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        """By group, in the order of the batch: a range of battles, its policy, the part of its output."""
        for name, slices in teams.items():
            for index, (group, battles) in enumerate(slices):
                self.owners[group].append((battles, name, index))
        for owners in self.owners.values():
            owners.sort(key=lambda owner: owner[0].start)

    def view(
        self,
        shown: Shown,
        name: str,
        teams: Sequence[TeamSlice] | None = None,
        dtype: torch.dtype | None = None,
        concat: Callable[..., list[Tensor]] = concat_pieces,
    ) -> TensorDict:
        """Input of one policy, batch `[G, A]` over `teams`, by default all that it commands.

        Args:
            dtype: of streams and telemetry; by default their own.
            concat: the function `concat_pieces`, or a graph or another form of it.
        """
        pieces = self.pieces(shown, name, teams)
        own_dtypes = [tensors[0].dtype for tensors in pieces.values()]
        is_kept = [kind == torch.bool or key[0] == "memory" for key, kind in zip(pieces, own_dtypes, strict=True)]
        dtypes = [own if kept or dtype is None else dtype for own, kept in zip(own_dtypes, is_kept, strict=True)]
        return self.team_of(dict(zip(pieces, concat(list(pieces.values()), dtypes), strict=True)))

    @staticmethod
    def team_of(leaves: Leaves) -> TensorDict:
        """The view `[G, A]` of its entries; telemetry is `[G, 16, 16]` among these."""
        telemetry, mask = leaves[TELEMETRY,], leaves["mask",]
        shared = telemetry[:, None].expand(*mask.shape, -1, -1)
        team = nested(leaves | {(TELEMETRY,): shared}, mask.shape, mask.device)
        if "memory" not in team.keys():
            team.set("memory", TensorDict({}, mask.shape, device=mask.device))
        return team

    def pieces(
        self, shown: Shown, name: str, teams: Sequence[TeamSlice] | None = None
    ) -> dict[tuple[str, ...], list[Tensor]]:
        """What `view` puts together: by key the leaves of each of `teams`, mechs padded, telemetry once a team."""
        leaves, teams = leaves_from(shown), teams or self.teams[name]
        mechs, own = max(leaves[group, "mask"].shape[1] for group, _ in teams), teams[0].group
        paths = {key[1:]: key[1:] for key in leaves if key[0] == own and key[1] in ("observation", "mask")}
        paths |= {("memory", *rest): ("memory", name, *rest) for rest in self.memory_leaves[name]}
        pieces = {
            key: [pad_mechs(leaves[(group, *path)][battles], mechs) for group, battles in teams]
            for key, path in paths.items()
        }
        return pieces | {(TELEMETRY,): [leaves[TELEMETRY,][battles] for _, battles in teams]}

    def views(self, shown: Shown, name: str) -> list[TensorDictBase]:
        """What a policy is called with, one after the other: one view, or one for each of its teams."""
        teams = self.teams[name]
        is_one = name == self.first or len(self.team_sizes(shown, name)) == 1
        return [self.view(shown, name, slices) for slices in ([teams] if is_one else [[team] for team in teams])]

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
        decision = self.decided(tensordict, view)
        for key, action in decision.actions.items():
            tensordict.set(key, action)
        if remembered is None:
            write_memory(tensordict, decision.memories)
        else:
            remembered += decision.memories
        return decision.first

    def decided(self, shown: Shown, view: TensorDictBase | None = None) -> TeamsDecision:
        """What every team does, and what it remembers next; `view` as in `decide`."""
        outputs = self._outputs(shown, view)
        actions: Leaves = {}
        memories: list[NextMemory] = []
        for group, owners in self.owners.items():
            mechs, parts = shown.get((group, "mask")).shape[1], []
            for battles, name, index in owners:
                output, rows = self._of_team(name, outputs[name], index)
                parts.append(output.get("action")[rows, :mechs])
                for path in self.memory_leaves[name]:
                    next_memory = output.get(("next", "memory", *path))[rows, :mechs]
                    memories.append(NextMemory((group, "memory", name, *path), battles.start, next_memory))
            actions[group, "action"] = torch.cat(parts, 0)
        return TeamsDecision(outputs[self.first][0], actions, memories)

    def _outputs(self, shown: Shown, view: TensorDictBase | None) -> dict[str, list[TensorDictBase]]:
        """What every policy makes of its views, by name. Those of which threads may share the work decide beside the
        first one."""

        def called(name: str) -> list[TensorDictBase]:
            views = [view] if view is not None and name == self.first else self.views(shown, name)
            return [self.policies[name](team) for team in views]

        # The mode belongs to a thread.
        beside = torch.inference_mode()(called)
        shared = [
            name for name in self.policies if name != self.first and self.threads > 1 and is_pure(self.policies[name])
        ]
        waiting = {name: workers(self.threads).submit(beside, name) for name in shared}
        mine = {name: called(name) for name in self.policies if name not in waiting}
        return {name: mine[name] if name in mine else waiting[name].result() for name in self.policies}

    def _of_team(self, name: str, outputs: Sequence[TensorDictBase], index: int) -> tuple[TensorDictBase, slice]:
        """Which output of a policy the `TeamSlice` of this number is in, and its rows there."""
        if len(outputs) > 1:
            return outputs[index], slice(None)
        start = sum(size(battles) for _, battles in self.teams[name][:index])
        return outputs[0], slice(start, start + size(self.teams[name][index].battles))

    def team_sizes(self, shown: Shown, name: str) -> set[int]:
        """Numbers of mechs in the teams of a policy."""
        return {int(shown.get((group, "mask")).shape[1]) for group, _ in self.teams[name]}

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
