"""Teams in the TensorDict of an environment: the assignment of teams to policies, and their memory.

Each policy commands one team in a slice (range) of the battles, or several such teams. The memory of a policy is stored
under `(group, "memory", name)`: a reset of the environment clears it, and checkpoints and captured CUDA graphs contain
it. Data flow of one decision, for G teams of A mechs:

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
    """Pad `[R, A, ...]` with zeros (False for bool) to `[R, mechs, ...]`; returns the same tensor if A is `mechs`."""
    missing = mechs - leaf.shape[1]
    return leaf if missing == 0 else pad(leaf, (*[0, 0] * (leaf.dim() - 2), 0, missing))


def concat_pieces(pieces: Sequence[Sequence[Tensor]], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """Concatenate each list of pieces to `[G, ...]` and convert the pieces to the given dtype."""
    return [torch.cat([tensor.to(dtype) for tensor in tensors]) for tensors, dtype in zip(pieces, dtypes, strict=True)]


def memory_of(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Return the recurrent state of the policy `name`, batch `[B, A]`; empty for a policy without state."""
    memory = tensordict.get((group, "memory", name), None)
    if memory is None:
        team = tensordict.get(group)
        return TensorDict({}, team.batch_size, device=team.device)
    return memory.copy()


def for_each_mech(tensordict: TensorDictBase, mechs: int) -> Tensor:
    """Expand the telemetry map to the mechs of a team without a copy, `[B, A, 16, 16]`."""
    telemetry = tensordict.get(TELEMETRY)
    return telemetry[:, None].expand(-1, mechs, -1, -1)


def team_view(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Return the input of a team policy, batch `[B, A]`, with `observation`, `mask`, `telemetry` and the policy's
    own `memory`."""
    team = tensordict.get(group).select("observation", "mask").copy()
    team.set(TELEMETRY, for_each_mech(tensordict, team.shape[1]))
    return team.set("memory", memory_of(tensordict, group, name))


class TeamsDecision(NamedTuple):
    """Decisions of all teams."""

    first: TensorDictBase
    """Output of the first policy, batch `[G, A]`."""
    actions: Leaves
    """`(group, "action") [B, A_g, D]`."""
    memories: list[NextMemory]
    """Next memories, one piece for each team of a policy."""


class EnvTeams:
    """A policy for the whole environment, made of several team policies and the teams that each commands.

    The first policy is called once: if its teams differ in size, they are padded to A mechs, the size of the larger
    team. Any other policy whose teams differ in size is called once for each team, without padding.

    Args:
        policies: the policies, keyed by the names of their entries in the environment's memory.
        teams: the G teams of each policy, keyed by the policy's name; every team of every battle belongs to one policy.
    """

    def __init__(self, policies: Mapping[str, TeamPolicy], teams: Mapping[str, Sequence[TeamSlice]]) -> None:
        self.policies, self.teams, self.first = policies, teams, next(iter(policies))
        self.threads = 1
        """CPU threads on which policies without state or randomness may run in parallel."""
        self.memory = memory_spec(**policies)
        """Spec of the environment's memory."""
        self.memory_leaves: dict[str, list[tuple[str, ...]]] = {name: [] for name in policies}
        """By policy, the keys of its memory."""
        for key in self.memory.keys(True, True):
            self.memory_leaves[key[0]].append(key[1:])
        self.owners: dict[str, list[tuple[slice, str, int]]] = {group: [] for group in GROUPS}
        """By group, in batch order: a range of battles, its policy, and the index in the policy's output."""
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
        """Return the input of one policy, batch `[G, A]` over `teams`; by default all teams that it commands.

        Args:
            dtype: dtype of streams and telemetry; by default unchanged.
            concat: function that concatenates the teams' tensors, such as `concat_pieces` or a compiled graph of it.
        """
        pieces = self.pieces(shown, name, teams)
        own_dtypes = [tensors[0].dtype for tensors in pieces.values()]
        is_kept = [kind == torch.bool or key[0] == "memory" for key, kind in zip(pieces, own_dtypes, strict=True)]
        dtypes = [own if kept or dtype is None else dtype for own, kept in zip(own_dtypes, is_kept, strict=True)]
        return self.team_of(dict(zip(pieces, concat(list(pieces.values()), dtypes), strict=True)))

    @staticmethod
    def team_of(leaves: Leaves) -> TensorDict:
        """Build a policy's input, batch `[G, A]`, from its entries, of which telemetry is given per team,
        `[G, 16, 16]`."""
        telemetry, mask = leaves[TELEMETRY,], leaves["mask",]
        shared = telemetry[:, None].expand(*mask.shape, -1, -1)
        team = nested(leaves | {(TELEMETRY,): shared}, mask.shape, mask.device)
        if "memory" not in team.keys():
            team.set("memory", TensorDict({}, mask.shape, device=mask.device))
        return team

    def pieces(
        self, shown: Shown, name: str, teams: Sequence[TeamSlice] | None = None
    ) -> dict[tuple[str, ...], list[Tensor]]:
        """Return, keyed as in a policy's input, the tensors that `view` concatenates: one per team, padded to equal
        team size."""
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
        """Return the inputs of a policy's calls in one decision: one for all teams, or one for each team."""
        teams = self.teams[name]
        is_one = name == self.first or len(self.team_sizes(shown, name)) == 1
        return [self.view(shown, name, slices) for slices in ([teams] if is_one else [[team] for team in teams])]

    def decide(
        self,
        tensordict: TensorDictBase,
        remembered: list[NextMemory] | None = None,
        view: TensorDictBase | None = None,
    ) -> TensorDictBase:
        """Write action and next memory of every team; return the output of the first policy, batch `[G, A]`.

        Args:
            remembered: list to which the next memory of each team is appended, instead of writing it to `tensordict`.
            view: the first policy's input, if already built by `view`.
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
        """Return actions and next memories of every team; the argument `view` is that of `decide`."""
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
        """Run every policy on its inputs and return the outputs, keyed by policy name. Policies without state or
        randomness run in other threads, in parallel to the first policy."""

        def called(name: str) -> list[TensorDictBase]:
            views = [view] if view is not None and name == self.first else self.views(shown, name)
            return [self.policies[name](team) for team in views]

        # torch's inference mode applies to one thread only, so each worker thread must enter it.
        beside = torch.inference_mode()(called)
        shared = [
            name for name in self.policies if name != self.first and self.threads > 1 and is_pure(self.policies[name])
        ]
        waiting = {name: workers(self.threads).submit(beside, name) for name in shared}
        mine = {name: called(name) for name in self.policies if name not in waiting}
        return {name: mine[name] if name in mine else waiting[name].result() for name in self.policies}

    def _of_team(self, name: str, outputs: Sequence[TensorDictBase], index: int) -> tuple[TensorDictBase, slice]:
        """Return the policy output that contains the policy's team number `index`, and the rows of that team in the
        output."""
        if len(outputs) > 1:
            return outputs[index], slice(None)
        start = sum(size(battles) for _, battles in self.teams[name][:index])
        return outputs[0], slice(start, start + size(self.teams[name][index].battles))

    def team_sizes(self, shown: Shown, name: str) -> set[int]:
        """Return the different team sizes of a policy."""
        return {int(shown.get((group, "mask")).shape[1]) for group, _ in self.teams[name]}

    def graph_key(self) -> Hashable | None:
        """Return a hashable value of the settings that decisions depend on, without tensors updated in place; None
        if unknown."""
        keys = [graph_key_of(policy) for policy in self.policies.values()]
        return None if None in keys else tuple(keys)


def write_memory(tensordict: TensorDictBase, pieces: Sequence[NextMemory]) -> None:
    """Write each policy's next memory into the battles that it plays; other battles keep their memory."""
    merged: dict[tuple[str, ...], Tensor] = {}
    for key, start, value in pieces:
        if key not in merged:
            merged[key] = tensordict.get(key).clone()
        merged[key][start : start + len(value)] = value
    for key, merged_value in merged.items():
        tensordict.set(("next", *key), merged_value)
