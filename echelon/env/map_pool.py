"""Pool of maps that battles are drawn from, with the first observations on each, and its renewal with fresh maps."""

from __future__ import annotations

import dataclasses

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.edited_states import check_begun
from echelon.env.loops.play import Loops
from echelon.env.observation.build import observe
from echelon.rules import actions
from echelon.rules.position import drawn_positions
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.noise import Stream
from echelon.sim.model import SimModel
from echelon.state import Maps, open_battle
from echelon.world.pool import make_maps, pool_seeds


class MapPool:
    """Pool of maps of a game. Battles draw from all maps but the spares, which `renew` overwrites with fresh ones.

    Args:
        game: holds the maps; the last `config.map_spares` of them are the first spares.
    """

    def __init__(self, game: SimModel, loops: Loops | None = None) -> None:
        self.game, self.loops = game, loops
        if game.config.positions:
            check_begun(game.config, game.maps)
        count, spares = game.maps.shape[0], game.config.map_spares
        require(count > spares, "EnvConfig.map_spares", f"below the {count} maps given", spares)
        device = game.roster.hull.device
        self.openings = first_observations(game, game.maps, loops)
        """Batch `[M]`: observations at the start of a battle on each map, and `focus_slots`."""
        indices = drawn_positions(game.config.positions) if game.config.positions else range(count - spares)
        self.drawn = torch.tensor(list(indices), device="cpu").to(device)
        """`[D]` int64 indices of the maps that battles are drawn from: a position as often as its weight says."""
        self.spares = list(range(count - spares, count))
        self.renewals = 0
        self.oldest = 0
        """Index in `drawn` of the map that has been there longest."""

    def renew(self, in_use: Tensor) -> int:
        """Generate a new map in every free spare and swap it with the map that has been drawn longest.

        Syncs with the device.

        Args:
            in_use: `[B]` int64 map index of each running battle. Spares among them are left as they are.

        Returns:
            Number of new maps.
        """
        device, busy = self.drawn.device, set(in_use.unique().tolist())
        free = [spare for spare in self.spares if spare not in busy]
        if not free:
            return 0
        self.renewals += 1
        seeds = pool_seeds(self.game.config, device, self.renewals)[: len(free)]
        self._generate(torch.tensor(free, device=device), seeds)
        drawn = self.drawn.tolist()
        for spare in free:
            self.spares[self.spares.index(spare)] = drawn[self.oldest]
            drawn[self.oldest] = spare
            self.oldest = (self.oldest + 1) % len(drawn)
        self.drawn.copy_(torch.tensor(drawn, device="cpu"))
        return len(free)

    def _generate(self, index: Tensor, seeds: Tensor) -> None:
        """Overwrite the maps `index [K]` with maps generated from `seeds [K]`."""
        fresh = make_maps(self.game.config, self.game.roster, seeds)
        for stored, new in ((self.game.maps, fresh), (self.openings, first_observations(self.game, fresh, self.loops))):
            for name, value in new.items():
                stored.get(name)[index] = value

    def restore(self, seeds: Tensor, drawn: list[int], spares: list[int], renewals: int, oldest: int) -> None:
        """Restore the state of a pool with the same settings.

        Args:
            seeds: `[M]` its `game.maps.seed`; maps with another seed are generated again.
        """
        is_written = len(self.game.config.positions) > 0
        is_same = not is_written or torch.equal(seeds.cpu(), self.game.maps.seed.cpu())
        require(is_same, "map_seeds", "those of positions that are written down", seeds.tolist())
        other = (seeds.to(self.drawn.device) != self.game.maps.seed).nonzero()[:, 0]
        if len(other) > 0:
            self._generate(other, seeds.to(self.drawn.device)[other])
        self.drawn.copy_(torch.tensor(drawn, device="cpu"))
        self.spares, self.renewals, self.oldest = list(spares), renewals, oldest


def draw_map(seed: Tensor, drawn: Tensor) -> Tensor:
    """`[B]` int64 map index of each battle, from its seed `[B]` and the maps `drawn [D]`."""
    number = noise.bits(seed, 0, Stream.MAP, 1)[:, 0]
    return drawn[number % drawn.shape[0]]


def first_observations(game: SimModel, maps: Maps, loops: Loops | None = None) -> TensorDict:
    """Observations at the start of a battle on each map, batch `[M]`; they depend on the map alone."""
    count, device = maps.shape[0], game.roster.hull.device
    seed = torch.zeros(count, dtype=torch.int64, device=device)
    state = open_battle(seed, torch.arange(count, device=device), maps, game.roster, game.config)
    if loops is not None:
        state, streams = loops.observe(state, maps)
    else:
        on_maps = dataclasses.replace(game, maps=maps)
        state, streams = observe(state, actions.idle(count, game.roster, game.config), on_maps)
    return TensorDict({**streams, "focus_slots": state.focus_slots}, [count], device=device)
