"""Pool of maps that battles are drawn from: how often each is, its first observations, its renewal with fresh maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.blocks import one_thread
from echelon.env.edited_states import check_begun
from echelon.env.loops.play import Loops
from echelon.env.observation.build import initial_observation
from echelon.rules.position import drawn_positions
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.noise import Stream
from echelon.sim.model import SimModel
from echelon.state import Maps, initial_state
from echelon.world.pool import make_maps, pool_seeds

SLOTS = 1024
"""Least number of slots that battles draw from, so that weights are told to a thousandth."""
PARTS = 1 << 32
"""Whole parts of the largest weight that weights are rounded to: their sums are the same in every order."""


class MapPool:
    """Pool of maps of a game. Battles draw from all maps but the spares, which `renew` overwrites with fresh ones.

    How often a map is drawn follows from `set_weights`; without it all are drawn alike, and positions by their weights.

    Args:
        sim_model: holds the maps; the last `config.map_spares` of them are the first spares.
        usable_loops: returns the loops that observe battles, or None for the dense form.
    """

    def __init__(self, sim_model: SimModel, usable_loops: Callable[[], Loops | None]) -> None:
        self.sim_model, self.usable_loops = sim_model, usable_loops
        if sim_model.config.positions:
            check_begun(sim_model)
        count, spares = sim_model.maps.shape[0], sim_model.config.map_spares
        require(count > spares, "EnvConfig.map_spares", f"below the {count} maps given", spares)
        device = sim_model.roster.hull.device
        self.initial_observations = first_observations(sim_model, sim_model.maps, usable_loops())
        """Batch `[M]`: observations at the start of a battle on each map, and `focus_slots`."""
        indices = drawn_positions(sim_model.config.positions) if sim_model.config.positions else range(count - spares)
        self.active = torch.tensor(list(indices), device="cpu").to(device)
        """`[T]` int64 indices of all maps but the spares: a position as often as its weight says."""
        self.map_slots = self.active.repeat(-(-SLOTS // len(self.active)))
        """`[D]` int64 slots that battles draw their map from: `active` a whole number of times, which draws as `active`
        does, until weights are set. They are written in place, where captured graphs read them."""
        self.is_weighted = False
        """Whether `map_slots` is other than `active`, again and again."""
        self.spares = list(range(count - spares, count))
        self.renewals = 0
        self.oldest = 0
        """Index in `active` of the map that has been there longest."""

    def set_weights(self, weights: Tensor | Sequence[float]) -> None:
        """Let battles that begin from now on draw maps by these weights.

        For between rollouts: it reads the host. Running battles keep their maps. The weights stay, in checkpoints too,
        until others are set; a map that `renew` makes takes over that of the one in whose place it comes.

        Args:
            weights: `[M]` how often each map of the pool is drawn, beside the others; those of spares do not count, and
                those of positions multiply the positions' own. Shares are rounded to one in `D` slots, 1,024 or more.

        Raises:
            ConfigError: they are not `[M]` finite numbers from 0 on, or 0 for all maps but spares.
        """
        tensor, count = torch.as_tensor(weights, dtype=torch.float32), self.sim_model.maps.shape[0]
        require(tensor.shape == (count,), "weights", f"[{count}] numbers, one a map", tuple(tensor.shape))
        is_valid = bool((tensor.isfinite() & (tensor >= 0)).all())
        require(is_valid, "weights", "finite and >= 0", tensor.tolist())
        active_weights = tensor.to(self.active.device)[self.active]
        require(bool((active_weights > 0).any()), "weights", "> 0 for a map that is no spare", tensor.tolist())
        self.assign_slots(active_weights)

    def assign_slots(self, weights: Tensor, offset: float = 0.5) -> None:
        """`set_weights` by `[T]` weights of the active maps, in their order, without a look at them or at the host.

        Args:
            offset: 0..1, where in its slot each is asked whose it is; a random one lets each map have on average the
                share of its weight (systematic resampling), however small.
        """
        slots = self.map_slots.shape[0]
        ends = (weights.double() / weights.double().amax() * PARTS).long().cumsum(0)  # [T]
        quantiles = (torch.arange(slots, dtype=torch.float64, device=ends.device) + offset) / slots
        self.map_slots.copy_(self.active[torch.searchsorted(ends, (quantiles * ends[-1]).long(), right=True)])
        self.is_weighted = True

    def renew(self, in_use: Tensor) -> int:
        """Generate a new map in every free spare and swap it with the map that has been drawn longest.

        Syncs with the device.

        Args:
            in_use: `[B]` int64 map index of each running battle. Spares among them are left as they are.

        Returns:
            Number of new maps.
        """
        device, busy = self.map_slots.device, set(in_use.unique().tolist())
        free = [spare for spare in self.spares if spare not in busy]
        if not free:
            return 0
        self.renewals += 1
        seeds = pool_seeds(self.sim_model.config, device, self.renewals)[: len(free)]
        self._generate(torch.tensor(free, device=device), seeds)
        active = self.active.tolist()
        for spare in free:
            retired, active[self.oldest] = active[self.oldest], spare
            self.spares[self.spares.index(spare)] = retired
            self.map_slots.masked_fill_(self.map_slots == retired, spare)
            self.oldest = (self.oldest + 1) % len(active)
        self.active.copy_(torch.tensor(active, device="cpu"))
        return len(free)

    def _generate(self, index: Tensor, seeds: Tensor) -> None:
        """Overwrite the maps `index [K]` with maps generated from `seeds [K]`."""
        maps = make_maps(self.sim_model.config, self.sim_model.roster, seeds)
        for stored, data in (
            (self.sim_model.maps, maps),
            (self.initial_observations, first_observations(self.sim_model, maps, self.usable_loops())),
        ):
            for name, value in data.items():
                stored.get(name)[index] = value

    def restore(
        self,
        seeds: Tensor,
        active: list[int],
        spares: list[int],
        renewals: int,
        oldest: int,
        weighted: list[int] | None = None,
    ) -> None:
        """Restore the state of a pool with the same settings.

        Args:
            seeds: `[M]` its `sim_model.maps.seed`; maps with another seed are generated again.
            weighted: its `map_slots`, where weights were set.
        """
        is_written = len(self.sim_model.config.positions) > 0
        is_same = not is_written or torch.equal(seeds.cpu(), self.sim_model.maps.seed.cpu())
        require(is_same, "map_seeds", "those of positions that are written down", seeds.tolist())
        differing = (seeds.to(self.map_slots.device) != self.sim_model.maps.seed).nonzero()[:, 0]
        if len(differing) > 0:
            self._generate(differing, seeds.to(self.map_slots.device)[differing])
        slots = weighted or active * (self.map_slots.shape[0] // len(active))
        self.active.copy_(torch.tensor(active, device="cpu"))
        self.map_slots.copy_(torch.tensor(slots, device="cpu"))
        self.spares, self.renewals, self.oldest = list(spares), renewals, oldest
        self.is_weighted = weighted is not None

    def take_over(self, other: MapPool) -> None:
        """Draw as another pool of the same maps does."""
        self.active.copy_(other.active)
        self.map_slots.copy_(other.map_slots)
        self.spares, self.renewals, self.oldest = list(other.spares), other.renewals, other.oldest
        self.is_weighted = other.is_weighted


def draw_map(seed: Tensor, map_slots: Tensor) -> Tensor:
    """`[B]` int64 map index of each battle, from its seed `[B]` and the maps `map_slots [D]`."""
    draw = noise.bits(seed, 0, Stream.MAP, 1)[:, 0]
    return map_slots[draw % map_slots.shape[0]]


def first_observations(sim_model: SimModel, maps: Maps, loops: Loops | None = None) -> TensorDict:
    """Observations at the start of a battle on each map, batch `[M]`; they depend on the map alone."""
    count, device = maps.shape[0], sim_model.roster.hull.device
    seed = torch.zeros(count, dtype=torch.int64, device=device)
    with one_thread(device):
        state = initial_state(seed, torch.arange(count, device=device), maps, sim_model.roster, sim_model.config)
        if loops is not None:
            state, streams = loops.observe(state, maps)
        else:
            state, streams = initial_observation(state, dataclasses.replace(sim_model, maps=maps))
    return TensorDict({**streams, "focus_slots": state.focus_slots}, [count], device=device)
