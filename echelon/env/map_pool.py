"""The maps an environment draws from: what every mech sees at the start on each, and how fresh ones take their turn."""

from __future__ import annotations

import dataclasses

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.env.observation.build import observe
from echelon.rules import actions
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.noise import Stream
from echelon.sim.model import SimModel
from echelon.state import Maps, open_battle
from echelon.world.pool import make_maps, pool_seeds


class MapPool:
    """The pool of maps of a game. Battles draw all but the spares, which fresh maps are put in place of.

    Args:
        game: holds the maps, `config.map_spares` of them last, where nobody draws them yet.
    """

    def __init__(self, game: SimModel) -> None:
        self.game = game
        count, spares = game.maps.shape[0], game.config.map_spares
        require(count > spares, "EnvConfig.map_spares", f"below the {count} maps given", spares)
        device = game.roster.hull.device
        self.openings = first_observations(game, game.maps)
        """`[M]` what a battle shows as it begins on each map, and its `focus_slots`."""
        self.drawn = torch.arange(count - spares, device=device)
        """`[D]` int64: the maps that battles draw."""
        self.spares = list(range(count - spares, count))
        self.renewals = 0
        self.oldest = 0
        """Place in `drawn` of the map that was drawn longest."""

    def draw(self, seed: Tensor) -> Tensor:
        """`[B]` int64: the map of each battle, by its own seed `[B]`."""
        number = noise.bits(seed, 0, Stream.MAP, 1)[:, 0]
        return self.drawn[number % self.drawn.shape[0]]

    def renew(self, in_use: Tensor) -> int:
        """Make the spares anew and let each change places with a map that was drawn longest. Reads the host.

        Args:
            in_use: `[B]` int64, the maps that battles are fought on. A spare among them stays what it is.

        Returns:
            How many fresh maps are drawn from now on.
        """
        device, busy = self.drawn.device, set(in_use.unique().tolist())
        free = [spare for spare in self.spares if spare not in busy]
        if not free:
            return 0
        self.renewals += 1
        seeds = pool_seeds(self.game.config, device, self.renewals)[: len(free)]
        self._make(torch.tensor(free, device=device), seeds)
        drawn = self.drawn.tolist()
        for spare in free:
            self.spares[self.spares.index(spare)] = drawn[self.oldest]
            drawn[self.oldest] = spare
            self.oldest = (self.oldest + 1) % len(drawn)
        self.drawn.copy_(torch.tensor(drawn))
        return len(free)

    def _make(self, places: Tensor, seeds: Tensor) -> None:
        """Make the maps of `seeds [K]` in the places `[K]`."""
        fresh = make_maps(self.game.config, self.game.roster, seeds)
        for kept, new in ((self.game.maps, fresh), (self.openings, first_observations(self.game, fresh))):
            for name, value in new.items():
                kept.get(name)[places] = value

    def restore(self, seeds: Tensor, drawn: list[int], spares: list[int], renewals: int, oldest: int) -> None:
        """Be as another pool of the same settings was: its `game.maps.seed [M]`, and its attributes."""
        other = (seeds.to(self.drawn.device) != self.game.maps.seed).nonzero()[:, 0]
        if len(other) > 0:
            self._make(other, seeds.to(self.drawn.device)[other])
        self.drawn.copy_(torch.tensor(drawn))
        self.spares, self.renewals, self.oldest = list(spares), renewals, oldest


def first_observations(game: SimModel, maps: Maps) -> TensorDict:
    """What every mech observes at the start of a battle on each map, `[M]`: it follows from the map alone."""
    count, device = maps.shape[0], game.roster.hull.device
    there = dataclasses.replace(game, maps=maps)
    seed = torch.zeros(count, dtype=torch.int64, device=device)
    state = open_battle(seed, torch.arange(count, device=device), maps, game.roster, game.config)
    state, streams = observe(state, actions.idle(count, game.roster, game.config), there)
    return TensorDict({**streams, "focus_slots": state.focus_slots}, [count], device=device)
