"""Specs of the environment: shapes, bounds and dtypes of every TensorDict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, TensorSpec, Unbounded

from echelon.env import reward
from echelon.env.observation import layout
from echelon.env.observation.stream import Stream
from echelon.env.observation.streams.registry import IN_ALL_BATTLES, OF_BATTLES, OF_COMMANDERS, streams_of
from echelon.env.orders.commander_view import commanders_of
from echelon.env.outcome import stat_names
from echelon.rules import orders
from echelon.rules.config import EnvConfig

DONE_KEYS = ("done", "terminated", "truncated")


@dataclass(frozen=True)
class Specs:
    """Specs of `num_envs` battles.

    Args:
        config: the battle configuration.
        teams: number of mechs by agent group.
        memory: float leaves of one mech's memory; see `EchelonEnv`.
        num_envs: number of battles, B.
        device: device of the specs.
        info: whether outcomes and reward terms are included.
        num_terms: number of reward terms.
        has_commanders: whether commanders have groups of their own and mechs observe orders, if orders are enabled.
    """

    config: EnvConfig
    teams: Mapping[str, int]
    memory: Composite
    num_envs: int
    device: torch.device
    info: bool = True
    num_terms: int = len(reward.TERMS)
    has_commanders: bool = False

    def observation(self) -> Composite:
        """Return the observation spec: streams, masks, memories and reward terms by group; at the root telemetry,
        `is_init` and the outcome.

        Reward terms and outcome are in the observation spec because TorchRL treats every leaf of `reward_spec` as a
        separate reward.
        """
        return self._root(
            **{group: self._team(count) for group, count in self.teams.items()},
            **{group: self._commanders(*counts) for group, counts in self.commanders.items()},
            **self._streams(OF_BATTLES, (), self.config),
            is_init=self.flags(1),
            **({"outcome": self._outcome()} if self.info else {}),
        )

    def action(self) -> Composite:
        """Return the action spec, with `(group, "action") [B, A, D]` in [-1, 1]."""
        width = layout.action_width(self.config.comm_dim)
        return self._root(
            **{
                group: self._group(count, action=self.bounded(-1.0, 1.0, count, width))
                for group, count in self.teams.items()
            },
            **{
                group: self._group(packs, action=self.bounded(-1.0, 1.0, packs, orders.action_width(enemies)))
                for group, (packs, enemies) in self.commanders.items()
            },
        )

    def reward(self) -> Composite:
        counts = {**self.teams, **{group: packs for group, (packs, _) in self.commanders.items()}}
        return self._root(**{g: self._group(count, reward=self._unbounded(count, 1)) for g, count in counts.items()})

    @property
    def commanders(self) -> dict[str, tuple[int, int]]:
        """Number of packs and number of enemies, by group of commanders; empty if orders are disabled."""
        groups = commanders_of(self.config) if self.has_commanders else {}
        enemies = len(self.config.red), len(self.config.blue)
        return {group: (len(names), count) for (group, names), count in zip(groups.items(), enemies, strict=False)}

    def done(self) -> Composite:
        return self._root(**{key: self.flags(1) for key in DONE_KEYS})

    def _streams(self, streams: Iterable[Stream], mechs: tuple[int, ...], *sizes: object) -> dict[str, TensorSpec]:
        """Return the specs of streams and their masks by name; `sizes` are the arguments of `Stream.rows`."""
        specs: dict[str, TensorSpec] = {}
        comm_dim = self.config.comm_dim
        for stream in streams:
            limits, shape = stream.bounds(comm_dim), stream.shape(comm_dim, *sizes)
            specs[stream.name] = self.bounded(*limits, *mechs, *shape)
            specs |= {name: self.flags(*mechs, *stream.rows(*sizes)) for name in stream.names[1:]}
        return specs

    def _team(self, count: int) -> Composite:
        shown = streams_of(self.config) if self.has_commanders else IN_ALL_BATTLES
        streams = self._group(count, **self._streams(shown, (count,), self.config))
        more: dict[str, object] = {}
        if len(self.memory.keys()) > 0:
            more["memory"] = self.memory.expand((self.num_envs, count)).to(self.device)
        if self.info:
            more["reward_terms"] = self._unbounded(count, self.num_terms)
        return self._group(count, observation=streams, mask=self.flags(count), **more)

    def _commanders(self, packs: int, enemies: int) -> Composite:
        streams = self._group(packs, **self._streams(OF_COMMANDERS, (packs,), packs, enemies))
        return self._group(packs, observation=streams, mask=self.flags(packs))

    def _outcome(self) -> Composite:
        batch, device = self.num_envs, self.device
        return self._root(
            winner=Bounded(-1, 2, (batch, 1), device=device, dtype=torch.int8),
            reason=Bounded(0, 4, (batch, 1), device=device, dtype=torch.int8),
            score=self._unbounded(2),
            decisions=Unbounded((batch, 1), device=device, dtype=torch.int64),
            idle_s=self._unbounded(1),
            stats=self._unbounded(2, len(stat_names(self.config.catalog))),
        )

    def _root(self, **leaves: object) -> Composite:
        return Composite(**leaves, shape=(self.num_envs,), device=self.device)

    def _group(self, count: int, **leaves: object) -> Composite:
        return Composite(**leaves, shape=(self.num_envs, count), device=self.device)

    def flags(self, *shape: int) -> Categorical:
        return Categorical(2, shape=(self.num_envs, *shape), dtype=torch.bool, device=self.device)

    def _unbounded(self, *shape: int) -> Unbounded:
        return Unbounded((self.num_envs, *shape), device=self.device, dtype=torch.float32)

    def bounded(
        self, low: Tensor | float, high: Tensor | float, *shape: int, dtype: torch.dtype = torch.float32
    ) -> Bounded:
        size = (self.num_envs, *shape)
        low, high = (torch.as_tensor(x, dtype=torch.float32, device=self.device).expand(size) for x in (low, high))
        return Bounded(low, high, size, device=self.device, dtype=dtype)
