"""Constants of the simulation. All battles and substeps share these constants."""

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Material
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import Roster
from echelon.state import Maps


@dataclass(frozen=True)
class SimModel:
    """Constants that the simulation reads in addition to the state: config, roster and maps."""

    config: EnvConfig
    roster: Roster
    maps: Maps
    size: Tensor
    """[3] vox, size of the map along x, y, z."""
    material_hp: Tensor
    """[M] hp of a voxel; infinite for indestructible materials."""
    reach_vox: float
    """Upper bound of the distance a shot flies in a substep, in vox, including the fall of ballistic shots."""
    leaf_rounds: tuple[Tensor, ...]
    """Entry k - 1 lists the shot slots that may cross k grid planes of an axis per substep. Empty without foliage."""
    leaf_reach: Tensor
    """[S] int64: maximum number of grid planes of an axis that the shot in each slot crosses per substep."""

    @property
    def rules(self) -> RulesConfig:
        """Rules of time, physics and victory."""
        return self.config.rules

    @property
    def catalog(self) -> Catalog:
        """Hulls, weapons, suites and materials."""
        return self.config.catalog


def flown_by_slot(roster: Roster, rules: RulesConfig) -> Tensor:
    """Return the maximum distance that the shot in each slot flies in a substep, `[S]` vox."""
    by_weapon = [spec.flown_vox(rules.gravity_vox_per_s2, rules.dt_s) for spec in roster.weapons]
    return torch.tensor(by_weapon, dtype=torch.float32, device=roster.hull.device)[roster.shots.weapon.argmax(-1)]


def build_model(config: EnvConfig, roster: Roster, maps: Maps) -> SimModel:
    """Build the constants on the device of `roster`. Synchronizes with the host, so call it once, before play."""
    world, device = config.world, roster.hull.device
    rules = config.rules
    flown_vox = flown_by_slot(roster, rules)
    reach_vox = max(flown_vox.tolist(), default=0.0)
    # Maps that are generated later may have foliage even if the first maps have none.
    grows_leaves = bool((maps.material == int(Material.FOLIAGE)).any()) or config.map_spares > 0
    rounds = int(reach_vox) + 1 if grows_leaves else 0
    slots = [(flown_vox > k).nonzero().squeeze(1) for k in range(rounds)]
    return SimModel(
        config=config,
        roster=roster,
        maps=maps,
        size=torch.tensor((world.size_x, world.size_y, world.size_z), device=device),
        material_hp=torch.tensor([config.catalog.material(m).hp for m in Material], dtype=torch.float32, device=device),
        reach_vox=reach_vox,
        leaf_rounds=tuple(slots),
        leaf_reach=flown_vox.ceil().long(),
    )
