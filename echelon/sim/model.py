"""What a battle is played with, the same for every battle and moment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.catalog import MATERIALS, WEAPONS, Material, Weapon
from echelon.rules.config import EnvConfig, RulesConfig
from echelon.rules.roster import Roster
from echelon.state import Maps


@dataclass(frozen=True)
class SimModel:
    """Settings, roster and maps: the constants every system reads beside the state."""

    config: EnvConfig
    roster: Roster
    maps: Maps
    size: Tensor
    """[3] vox, the map along x, y, z."""
    material_hp: Tensor
    """[len(Material)] hp of a voxel, infinite where nothing destroys it."""
    reach_vox: float
    """No shot flies farther in a substep; a falling slug outruns its muzzle speed a little."""
    leaf_rounds: tuple[Tensor, ...]
    """By k: the slots of shots that may cross a k-th plane of an axis in a substep. Empty where no map grows leaves."""
    leaf_reach: Tensor
    """[S] int64: how many planes of an axis the shot of a slot may cross."""

    @property
    def rules(self) -> RulesConfig:
        """Clock, physics and victory."""
        return self.config.rules


def build_model(config: EnvConfig, roster: Roster, maps: Maps) -> SimModel:
    """Gather the constants of a battle on the device of `roster`. Reads the host: it runs once, before play."""
    world, device = config.world, roster.hull.device
    rules = config.rules
    fall_vox_per_s = rules.gravity_vox_per_s2 * WEAPONS[Weapon.GAUSS].lifetime_s * roster.ballistic
    flown_vox = (roster.shot_speed + fall_vox_per_s) * rules.dt_s
    reach_vox = flown_vox.max().item()
    # Fresh maps may grow leaves where the first ones grow none.
    grows_leaves = bool((maps.material == int(Material.FOLIAGE)).any()) or config.map_spares > 0
    rounds = int(reach_vox) + 1 if grows_leaves else 0
    slots = [(flown_vox > k).nonzero().squeeze(1) for k in range(rounds)]
    return SimModel(
        config=config,
        roster=roster,
        maps=maps,
        size=torch.tensor((world.size_x, world.size_y, world.size_z), device=device),
        material_hp=torch.tensor([MATERIALS[m].hp for m in Material], device=device),
        reach_vox=reach_vox,
        leaf_rounds=tuple(slots),
        leaf_reach=flown_vox.ceil().long(),
    )
