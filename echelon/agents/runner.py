r"""Runs policies for the teams of a pool and stores their memory.

A pool has R teams of A mechs; smaller teams are padded. In a match of B battles, row b is the blue team of battle b and
row b + B is its red team. In a view (`echelon.views`), the pool contains one team of each battle. A `TeamSeat` is a
team of the pool, or some of its mechs; the policy of a seat decides as if it commanded the whole team.

Memory is zero at the start of a battle. Memory is stored in a `TeamRunner` (views, matches), as one TensorDict, or in
the TensorDict of an environment (`echelon.agents.env_teams`). Data flow of one decision, for G teams of the pool:

    pool of teams --team_input--> policy --check_action--> actions [G, A, D]
    memory [G, A]  --------------^      \--------------> next memory [G, A]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.team_policy import (
    TeamPolicy,
    add_masks,
    draws_actions,
    graph_key_of,
    memory_spec_of,
)
from echelon.env.arguments import real_action
from echelon.env.leaves import Shown
from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError, require


@dataclass(frozen=True)
class SharedTeam:
    """A team shared by two policies, each of which decides as if it commanded the whole team.

    Args:
        own, rest: names of the two policies, which must differ.
        places: mechs of the team that `own` commands; `rest` commands the others.
    """

    own: str
    rest: str
    places: tuple[int, ...]

    def members(self, mechs: int) -> dict[str, tuple[int, ...]]:
        """Return the mechs that each policy commands in a team of `mechs` mechs, keyed by policy name."""
        partners = tuple(mech for mech in range(mechs) if mech not in self.places)
        return {self.own: self.places, self.rest: partners}


class TeamSeat(NamedTuple):
    """A team of the pool, or a part of it, commanded by one policy."""

    row: int
    """Row of the pool."""
    place: int
    """Slot in its block of stacked networks, see `echelon.agents.stacked`."""
    mechs: tuple[int, ...] | None = None
    """Places of the mechs that the policy commands in the team; None for all of them."""


class Part(NamedTuple):
    """The mechs that a decider commands, if these are not all mechs of its teams."""

    rows: Tensor
    """`[K]` int64, rows of the batch."""
    teams: Tensor
    """`[K]` int64, the team's index among the teams of the decider."""
    mechs: Tensor
    """`[K]` int64, places in the team."""

    @staticmethod
    def of(slots: Sequence[TeamSeat], count: int, device: torch.device) -> Part | None:
        """Return the mechs that these seats command in teams of `count` mechs; None if they command all mechs."""
        if all(slot.mechs is None for slot in slots):
            return None
        all_mechs = tuple(range(count))
        listed = [
            (slot.row, team, mech)
            for team, slot in enumerate(slots)
            for mech in (all_mechs if slot.mechs is None else slot.mechs)
        ]
        return Part(*torch.tensor(listed, device=device).T)


class TeamObservation(NamedTuple):
    """Observations of all R teams of a pool."""

    streams: Mapping[str, Tensor]
    """`[R, A, ...]` observation streams by name."""
    mask: Tensor
    """`[R, A]` bool, which mechs are alive."""
    telemetry: Tensor
    """`[R, 16, 16]` team telemetry."""
    noise: Tensor | None
    """`[R, A, D]` standard normal samples from the seed of each battle; None if no policy samples actions."""
    action_mask: Tensor | None = None
    """`[R, A, 64 + S]` bool, the index actions available to each mech; None if no policy reads them."""

    @staticmethod
    def from_groups(
        observed: Shown,
        join: Callable[[Tensor, Tensor], Tensor],
        telemetry: Tensor,
        noise: Sequence[Tensor] | None,
        action_mask: Sequence[Tensor] | None = None,
    ) -> TeamObservation:
        """Build the team observations from an environment's observation of both groups.

        Args:
            join: joins blue and red values, `[B, A_g, ...]` each, into rows of the pool, `[R, A, ...]`.
            noise, action_mask: two tensors each, for blue and for red.
        """

        def joined(*key: str) -> Tensor:
            return join(*(observed.get((group, *key)) for group in GROUPS))

        streams = {name: joined("observation", name) for name in STREAMS}
        normals, masks = (pair if pair is None else join(*pair) for pair in (noise, action_mask))
        return TeamObservation(streams, joined("mask"), telemetry, normals, masks)

    def of(self, rows: Tensor, mechs: int) -> TeamObservation:
        """Select the teams in `rows [G]` int64, with only the first `mechs` mechs of each team; the rest is padding."""
        streams = {name: leaf[rows, :mechs] for name, leaf in self.streams.items()}
        normals, masks = (leaf if leaf is None else leaf[rows, :mechs] for leaf in (self.noise, self.action_mask))
        return TeamObservation(streams, self.mask[rows, :mechs], self.telemetry[rows], normals, masks)


def check_decided(name: str, decided: object) -> None:
    """Raise `ConfigError` unless a policy returned a TensorDict."""
    if not isinstance(decided, TensorDictBase):
        raise ConfigError(
            f'{name} must return the team it was given: return team.set("action", action), got {decided!r:.80}'
        )


def check_action(policy: TeamPolicy, who: str | None, decided: object, shape: tuple[int, ...]) -> Tensor:
    """Return the action `[G, A, D]` in a policy's output.

    Args:
        who: the policy's name in messages; None for the name of its class.

    Raises:
        ConfigError: if the output has no action of this shape.
    """
    if who is None:
        action = decided.get("action") if isinstance(decided, TensorDictBase) else None
        actual = tuple(action.shape) if isinstance(action, Tensor) else "none"
        require(actual == shape, f"the action of {type(policy).__name__}", f"of shape {shape}", actual)
        assert isinstance(action, Tensor)
        return action
    check_decided(who, decided)
    action = real_action(f"action of the {who}", decided.get("action", None))  # type: ignore[attr-defined]
    require(action.shape == shape, f"action of the {who}", f"of shape {shape}", tuple(action.shape))
    return action


def action_noise(seed: Tensor, decision: Tensor | int, mechs: int, width: int) -> Tensor:
    """Return standard normal samples `[B, N, D]` for the actions of all N mechs in one decision.

    Args:
        seed: seeds of the battles, `[B]` int64.
        decision: index of the decision in its battle, a number or `[B]`.
    """
    return noise.normal(seed, decision, noise.Stream.ACTION, mechs * width).view(-1, mechs, width)


def team_input(
    streams: Mapping[str, Tensor], mask: Tensor, telemetry: Tensor, memory: TensorDictBase, normals: Tensor | None
) -> TensorDict:
    """Build the input of a team policy, batch `[B, A]`.

    Args:
        streams: observation streams by name, `[B, A, ...]` each.
        mask: which mechs are alive, `[B, A]` bool.
        telemetry: team telemetry, `[B, 16, 16]`.
        memory: recurrent state of the policy, batch `[B, A]`.
        normals: noise `[B, A, D]`, or None for a policy that does not sample actions.
    """
    batch, device = mask.shape, mask.device
    values = {
        "observation": TensorDict(dict(streams), batch, device=device),
        "mask": mask,
        "telemetry": telemetry[:, None].expand(*batch, -1, -1),
        "memory": memory,
    }
    return TensorDict(values if normals is None else {**values, "noise": normals}, batch, device=device)


def first_memory(policy: TeamPolicy, teams: int, mechs: int, device: torch.device) -> TensorDict:
    """Return a policy's memory at the start of battles, batch `[G, A]`."""
    return memory_spec_of(policy).expand((teams, mechs)).to(device).zero()


class Decider(ABC):
    """Computes the actions for some teams of a pool, or for a part of their mechs, and stores the memory of the
    policies."""

    mechs: int
    """Mechs per team, A."""
    commanded: list[int]
    """Rows of its G teams, on the host."""
    rows: Tensor
    """`[G]` int64, the same on the device."""
    part: Part | None
    """The mechs it acts for; None for all mechs of its teams."""
    memory: TensorDictBase
    """Memory of the mechs, batch `[R, A]`, zero at the start of battles."""
    used: Tensor
    """`[G]` int64, rows of `memory` that belong to its teams."""

    @abstractmethod
    def decide(self, observation: TeamObservation) -> Tensor:
        """Return actions `[G, A, D]` for the teams in `rows`."""

    @abstractmethod
    def graph_key(self) -> Hashable | None:
        """Return a hashable value of the settings that decisions depend on, without tensors updated in place; None
        if unknown."""

    def memories(self) -> TensorDictBase:
        """Copy the memory of the teams in `rows`, batch `[G, A]`."""
        return self.memory[self.used]

    def remember(self, memories: TensorDictBase) -> None:
        """Restore the memory of the teams in `rows`, in the form that `memories` returns."""
        memory = self.memory.clone()
        memory[self.used] = memories
        self.memory = memory


class SeatedPolicy(Decider):
    """A policy that runs on its own: a scripted commander, an opponent in a view, or any other `TeamPolicy`.

    Args:
        seats: the seats that it commands; None for all teams of a pool of `teams` teams.
        mechs: mechs per team, A.
        call: function to call instead of the policy, such as a compiled graph of it; by default the policy itself.
        teams: smallest number of teams in a call, because a compiled graph has a fixed shape; a call with fewer teams
            is padded with copies of row 0 of the pool.
        who: the policy's name in messages, see `check_action`.
        width: width D of an action, for observations without noise.
    """

    def __init__(
        self,
        policy: TeamPolicy,
        seats: Sequence[TeamSeat] | None,
        mechs: int,
        device: torch.device,
        call: Callable[[TensorDictBase], TensorDictBase] | None = None,
        teams: int = 0,
        who: str | None = None,
        width: int = 0,
    ) -> None:
        self.policy, self.mechs, self.call, self.who, self.width = policy, mechs, call or policy, who, width
        self.is_pool = seats is None
        self.part = None if seats is None else Part.of(seats, mechs, device)
        self.commanded = list(range(teams)) if seats is None else [seat.row for seat in seats]
        self.rows = torch.tensor(self.commanded, device=device)
        self.used = torch.arange(len(self.commanded), device=device)
        rows = self.commanded + [0] * (teams - len(self.commanded))
        self.decided = torch.tensor(rows, device=device)
        """`[max(G, teams)]` int64, the rows it decides for."""
        self.memory: TensorDictBase = first_memory(policy, len(rows), mechs, device)

    def graph_key(self) -> Hashable | None:
        return graph_key_of(self.policy)

    def decide(self, observation: TeamObservation) -> Tensor:
        observed = observation if self.is_pool else observation.of(self.decided, self.mechs)
        normals = observed.noise if draws_actions(self.policy) else None
        team = team_input(observed.streams, observed.mask, observed.telemetry, self.memory.copy(), normals)
        if observed.action_mask is not None:
            add_masks(team, self.policy, observed.action_mask)
        output = self.call(team)
        width = self.width if observed.noise is None else observed.noise.shape[-1]
        action = check_action(self.policy, self.who, output, (len(self.decided), self.mechs, width))
        remembered = output.get(("next", "memory"), self.memory)
        # Update in place for a CUDA graph, which reads the policy's memory at a fixed address.
        # Otherwise assign it, because a view may later restore the old memory, which must stay intact.
        if self.is_pool or self.graph_key() is None:
            self.memory = remembered
        else:
            self.memory.update_(remembered)
        return action[: len(self.rows)]


class TeamRunner:
    """Runs all commanders of a pool of teams: maps observations to actions and stores the memory of the commanders.

    Args:
        deciders: the deciders, by name.
        decide_all: function that runs all deciders and returns their actions in order; by default it runs one decider
            after the other.
        shape: leading batch dimensions that all memories share.
    """

    def __init__(
        self,
        deciders: Mapping[str, Decider],
        decide_all: Callable[[Sequence[Decider], TeamObservation], list[Tensor]] | None = None,
        shape: Sequence[int] = (),
    ) -> None:
        self.deciders, self.shape = dict(deciders), shape
        self.decide_all = decide_all or one_by_one

    def __call__(self, observation: TeamObservation) -> Tensor:
        """Return actions `[R, A, D]` of all teams of the pool; 0 for mechs without a policy."""
        assert observation.noise is not None
        action, deciders = torch.zeros_like(observation.noise), list(self.deciders.values())
        for decider, decided in zip(deciders, self.decide_all(deciders, observation), strict=True):
            part = decider.part
            if part is None:
                action[decider.rows, : decider.mechs] = decided
            else:
                action[part.rows, part.mechs] = decided[part.teams, part.mechs]
        return action

    @property
    def memory(self) -> TensorDict:
        """Memory of all policies, keyed by decider name."""
        return TensorDict({name: decider.memory for name, decider in self.deciders.items()}, self.shape)

    @memory.setter
    def memory(self, memory: TensorDictBase) -> None:
        for name, decider in self.deciders.items():
            decider.memory = memory.get(name, decider.memory)

    def graph_key(self) -> Hashable | None:
        """Return a hashable value of the settings that decisions depend on, without tensors updated in place; None
        if unknown."""
        keys = [decider.graph_key() for decider in self.deciders.values()]
        return None if None in keys else tuple(keys)

    @property
    def is_shared(self) -> bool:
        """Whether two policies share a team."""
        return any(decider.part is not None for decider in self.deciders.values())

    def memories(self) -> dict[int, TensorDictBase]:
        """Return a copy of each team's memory, batch `[A]`, keyed by row of the pool. For a team shared by two
        policies, return only the memory of the first policy."""
        memories: dict[int, TensorDictBase] = {}
        for decider in self.deciders.values():
            for row, memory in zip(decider.commanded, decider.memories().unbind(0), strict=True):
                memories.setdefault(row, memory)
        return memories

    def remember(self, memory_of: Callable[[int], TensorDictBase | None]) -> None:
        """Set the memory of the team in each row to `memory_of(row)`, batch `[A]`; None keeps the current memory."""
        for decider in self.deciders.values():
            own = decider.memories().unbind(0)
            given = [memory_of(row) for row in decider.commanded]
            decider.remember(torch.stack([m if new is None else new for m, new in zip(own, given, strict=True)]))


def one_by_one(deciders: Sequence[Decider], observation: TeamObservation) -> list[Tensor]:
    """Run each of `deciders` and return the actions in their order."""
    return [decider.decide(observation) for decider in deciders]
