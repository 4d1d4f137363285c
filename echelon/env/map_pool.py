"""Pool of maps that battles draw from: sampling weights, initial observations, and renewal with fresh maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.blocks import one_thread
from echelon.env.edited_states import check_initial_positions
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
"""Minimum number of slots that battles draw from, so that weights have a resolution of a thousandth."""
PARTS = 1 << 32
"""Weights are rounded to this number of parts of the largest weight, so that their sums do not depend on the order."""


class MapPool:
    """Pool of maps. New battles draw from all maps except the spare maps, which `renew` overwrites with newly generated
    maps.

    By default, generated maps are drawn uniformly, and the start positions of a scenario by their weights;
    `set_weights` changes the weights.

    Args:
        sim_model: contains the maps; at first, the last `config.map_spares` maps are the spare maps.
        usable_loops: function that returns the numba loops that compute observations, or None for torch operations.
    """

    def __init__(self, sim_model: SimModel, usable_loops: Callable[[], Loops | None]) -> None:
        self.sim_model, self.usable_loops = sim_model, usable_loops
        if sim_model.config.positions:
            check_initial_positions(sim_model)
        count, spares = sim_model.maps.shape[0], sim_model.config.map_spares
        require(count > spares, "EnvConfig.map_spares", f"less than {count}, the number of maps", spares)
        device = sim_model.roster.hull.device
        self.initial_observations = initial_observations_of(sim_model, sim_model.maps, usable_loops())
        """Batch `[M]`: observations at the start of a battle on each map, and `focus_slots`."""
        indices = drawn_positions(sim_model.config.positions) if sim_model.config.positions else range(count - spares)
        self.active = torch.tensor(list(indices), device="cpu").to(device)
        """`[T]` int64 indices of all maps but the spares; a position is repeated according to its weight."""
        self.map_slots = self.active.repeat(-(-SLOTS // len(self.active)))
        """`[D]` int64 slots that battles draw their map from. Until weights are set, `active` is repeated a whole
        number of times. Slots are written in place, because captured graphs read them."""
        self.is_weighted = False
        """Whether `map_slots` is weighted, not just `active` repeated."""
        self.spares = list(range(count - spares, count))
        self.renewals = 0
        self.oldest = 0
        """Index in `active` of the oldest map."""

    def set_weights(self, weights: Tensor | Sequence[float]) -> None:
        """Set the sampling weights of maps for battles that start from now on.

        Call this method between rollouts, because it reads tensors on the host. Running battles keep their maps.
        Weights stay until they are set again, and checkpoints store them. A map made by `renew` inherits the weight of
        the map it replaces.

        Args:
            weights: relative weight of each map of the pool, `[M]`. Weights of spare maps are ignored. The weight of a
                start position is multiplied by the position's own weight. The probability of a map is rounded to a
                multiple of 1 / D, where D >= 1,024 is the number of slots.

        Raises:
            ConfigError: if `weights` are not `[M]` finite non-negative numbers, or are 0 for all maps except spare
                maps.
        """
        tensor, count = torch.as_tensor(weights, dtype=torch.float32), self.sim_model.maps.shape[0]
        require(tensor.shape == (count,), "weights", f"[{count}] numbers, one per map", tuple(tensor.shape))
        is_valid = bool((tensor.isfinite() & (tensor >= 0)).all())
        require(is_valid, "weights", "finite and >= 0", tensor.tolist())
        active_weights = tensor.to(self.active.device)[self.active]
        require(bool((active_weights > 0).any()), "weights", "> 0 for a map that is not a spare", tensor.tolist())
        self.assign_slots(active_weights)

    def assign_slots(self, weights: Tensor, offset: float = 0.5) -> None:
        """Set weights `[T]` of the active maps, in their order, without checks and without a host read.

        Args:
            weights: relative weight of each active map, `[T]`.
            offset: sampling position within each slot, in 0..1. A random offset gives each map its exact probability on
                average, however small (systematic resampling).
        """
        slots = self.map_slots.shape[0]
        ends = (weights.double() / weights.double().amax() * PARTS).long().cumsum(0)  # [T]
        quantiles = (torch.arange(slots, dtype=torch.float64, device=ends.device) + offset) / slots
        self.map_slots.copy_(self.active[torch.searchsorted(ends, (quantiles * ends[-1]).long(), right=True)])
        self.is_weighted = True

    def renew(self, in_use: Tensor) -> int:
        """Generate a new map in place of each spare map that no battle uses, and exchange it for the oldest of the maps
        that new battles draw.

        Reads tensors on the host.

        Args:
            in_use: map index of each running battle, `[B]` int64. Spare maps that a battle uses do not change.

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
        """Overwrite the maps with the indices `index [K]` by maps generated from `seeds [K]`."""
        maps = make_maps(self.sim_model.config, self.sim_model.roster, seeds)
        for stored, data in (
            (self.sim_model.maps, maps),
            (self.initial_observations, initial_observations_of(self.sim_model, maps, self.usable_loops())),
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
            seeds: stored `sim_model.maps.seed`, `[M]`; maps with a different seed are generated again.
            active, spares, renewals, oldest: stored attributes.
            weighted: stored `map_slots` if weights were set, else None.

        Raises:
            ConfigError: if the maps belong to start positions of a scenario and their seeds differ from `seeds`.
        """
        is_written = len(self.sim_model.config.positions) > 0
        is_same = not is_written or torch.equal(seeds.cpu(), self.sim_model.maps.seed.cpu())
        require(is_same, "map_seeds", "those of the given positions", seeds.tolist())
        differing = (seeds.to(self.map_slots.device) != self.sim_model.maps.seed).nonzero()[:, 0]
        if len(differing) > 0:
            self._generate(differing, seeds.to(self.map_slots.device)[differing])
        slots = weighted or active * (self.map_slots.shape[0] // len(active))
        self.active.copy_(torch.tensor(active, device="cpu"))
        self.map_slots.copy_(torch.tensor(slots, device="cpu"))
        self.spares, self.renewals, self.oldest = list(spares), renewals, oldest
        self.is_weighted = weighted is not None

    def take_over(self, other: MapPool) -> None:
        """Copy the sampling state of another pool of the same maps."""
        self.active.copy_(other.active)
        self.map_slots.copy_(other.map_slots)
        self.spares, self.renewals, self.oldest = list(other.spares), other.renewals, other.oldest
        self.is_weighted = other.is_weighted


def draw_map(seed: Tensor, map_slots: Tensor) -> Tensor:
    """Return `[B]` int64 map index of each battle, drawn by its seed `[B]` from `map_slots [D]`."""
    draw = noise.bits(seed, 0, Stream.MAP, 1)[:, 0]
    return map_slots[draw % map_slots.shape[0]]


def initial_observations_of(sim_model: SimModel, maps: Maps, loops: Loops | None = None) -> TensorDict:
    """Return the initial observation of a battle on each map, batch `[M]`; it depends only on the map."""
    count, device = maps.shape[0], sim_model.roster.hull.device
    seed = torch.zeros(count, dtype=torch.int64, device=device)
    with one_thread(device):
        state = initial_state(seed, torch.arange(count, device=device), maps, sim_model.roster, sim_model.config)
        if loops is not None:
            state, streams = loops.observe(state, maps)
        else:
            state, streams = initial_observation(state, dataclasses.replace(sim_model, maps=maps))
    return TensorDict({**streams, "focus_slots": state.focus_slots}, [count], device=device)
