"""Recipes: a few numbers from which a map is made again, voxel by voxel, on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from echelon.rules.config import EnvConfig
from echelon.rules.roster import Roster, build_roster
from echelon.rules.versions import MAP_MAKER_VERSION
from echelon.runtime.errors import require
from echelon.state import Maps
from echelon.world.pool import make_maps

MAKERS: dict[int, Callable[[EnvConfig, Roster, Tensor], Maps]] = {2: make_maps}
"""The map maker of each version: one that is replaced stays, so that its recipes make their maps for ever."""
FIELDS: dict[str, type] = {"version": int, "seed": int, "sha256": str}


@dataclass(frozen=True)
class Recipe:
    """How one map was made, and what came of it."""

    version: int
    seed: int
    sha256: str
    """Fingerprint of the map, as `fingerprints` tells it."""

    def make(self, config: EnvConfig, device: torch.device | str = "cpu") -> Maps:
        versions = ", ".join(map(str, MAKERS))
        require(self.version in MAKERS, "map.version", f"of a map maker of this Echelon, {versions}", self.version)
        device = torch.device(device)
        maps = MAKERS[self.version](config, build_roster(config, device), torch.tensor([self.seed], device=device))
        (sha256,) = fingerprints(maps)
        hint = f"{self.sha256}, the recipe's: it belongs to other settings, or to a map made by hand"
        require(sha256 == self.sha256, f"the sha256 of map {self.seed}", hint, sha256)
        return maps

    def as_json(self) -> dict[str, Any]:
        return {"version": self.version, "seed": self.seed, "sha256": self.sha256}


def from_json(values: Any) -> Recipe:
    require(isinstance(values, dict), "map", "a recipe", values)
    for name, kind in FIELDS.items():
        require(type(values.get(name)) is kind, f"map.{name}", f"a {kind.__name__}", values.get(name))
    require(0 <= values["seed"] < 2**32, "map.seed", "0..4294967295", values["seed"])
    return Recipe(**{name: values[name] for name in FIELDS})


def fingerprints(maps: Maps) -> list[str]:
    """sha256 of each map: its voxels, its zone and where mechs stand, all of them exact numbers."""
    tensors = (maps.material, maps.zone_center, maps.zone_radius, maps.spawn_pos)
    rows = [values.cpu().numpy() for values in tensors]
    return [hashlib.sha256(b"".join(values[m].tobytes() for values in rows)).hexdigest() for m in range(maps.shape[0])]


def write_recipes(maps: Maps) -> list[Recipe]:
    return [
        Recipe(MAP_MAKER_VERSION, seed, sha) for seed, sha in zip(maps.seed.tolist(), fingerprints(maps), strict=True)
    ]
