"""What a battle is played with, the same for every battle and moment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.catalog import WEAPONS, Roster, Timer
from echelon.config import EnvConfig, RulesConfig
from echelon.state import Maps


@dataclass(frozen=True)
class Game:
    """Settings, roster and maps: the constants every system reads beside the state."""

    config: EnvConfig
    roster: Roster
    maps: Maps
    size: Tensor
    """[3] vox, the map along x, y, z."""
    longest_cooldown: Tensor
    """[len(Timer)] substeps, what each timer is set to at most."""

    @property
    def rules(self) -> RulesConfig:
        """Clock, physics and victory."""
        return self.config.rules


def build_game(config: EnvConfig, roster: Roster, maps: Maps) -> Game:
    """Gather the constants of a battle on the device of `roster`."""
    world, device = config.world, roster.hull.device
    longest = [max(config.rules.substeps(w.cooldown_s) for w in WEAPONS.values() if w.timer == t) for t in Timer]
    return Game(
        config=config,
        roster=roster,
        maps=maps,
        size=torch.tensor((world.size_x, world.size_y, world.size_z), device=device),
        longest_cooldown=torch.tensor(longest, device=device),
    )
