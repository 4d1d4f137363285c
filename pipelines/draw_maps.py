"""The command of `arena.py` that draws maps from above."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import require_picture
from echelon.pipelines.progress_bar import tracked
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS, EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, check_settings
from echelon.state import Maps
from echelon.view.contact_sheet import Tile, draw_contact_sheet
from echelon.world.layout import quadrants
from echelon.world.pool import make_maps, pool_seeds


@dataclass(frozen=True)
class DrawMaps:
    """Draw maps from above: one per single biome, then some of the map pool with zone and spawns, and with the names of
    the biomes that they consist of."""

    out: Path = Path("maps.png")
    """A PDF, of as many pages as needed, or a PNG or SVG, several of which are numbered."""
    env: Literal["small", "standard", "large"] = "standard"
    maps: int = 8
    """Number of maps of the pool to draw below the biomes."""
    map_seed: int = 0
    """Seed of the pool."""

    def __post_init__(self) -> None:
        check_settings(self, {"maps": Limits(0, 256), "map_seed": SEED})

    def run(self) -> None:
        """Make maps and draw them."""
        require_picture("--out", self.out)
        check_writable(self.out)
        env = replace(ENV_PRESETS[self.env](), map_seed=self.map_seed, map_pool=max(self.maps, 1))
        names = [*env.world.biomes, *range(self.maps)]
        tiles = [self.tile(env, name) for name in tracked(names, "maps", len(names))]
        for path in draw_contact_sheet(tiles, [material.name.lower() for material in Material], self.out):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
        terminal().print(f"{len(tiles)} maps")

    def tile(self, env: EnvConfig, which: str | int) -> Tile:
        """The map of a biome, or that of a number in the pool."""
        device = torch.device("cpu")
        if isinstance(which, str):
            env = replace(env, map_pool=1, world=replace(env.world, biomes=(which,)))
        number = 0 if isinstance(which, str) else which
        seeds = pool_seeds(env, device)[number : number + 1]
        maps = make_maps(env, build_roster(env, device), seeds)
        if isinstance(which, str):
            return Tile(which.replace("_", " "), maps.material[0].numpy())
        return marked_tile(f"map {which} of seed {self.map_seed}", maps, env)


def marked_tile(caption: str, maps: Maps, env: EnvConfig) -> Tile:
    """A tile of the one map, with its zone, its spawns and the names of its parts."""
    x, y = maps.zone_center[0].tolist()
    places, blue = maps.spawn_pos[0].tolist(), len(env.blue)
    spawns = [(place[0], place[1], int(n >= blue)) for n, place in enumerate(places)]
    zone = (x, y, float(maps.zone_radius[0]))
    return Tile(caption, maps.material[0].numpy(), zone, spawns, named_parts(maps.seed, env.world))


def named_parts(seeds: torch.Tensor, world: WorldConfig) -> list[tuple[float, float, str]]:
    """x, y of the middle of every part of the map of a seed that is of one biome, and the biome's name."""
    from scipy import ndimage  # takes a second to import

    biome = quadrants(seeds, world)[0].numpy()
    parts = []
    for index, name in enumerate(world.biomes):
        areas, count = ndimage.label(biome == index)
        for y, x in ndimage.center_of_mass(areas > 0, areas, range(1, count + 1)):
            parts.append((float(x) + 0.5, float(y) + 0.5, name.replace("_", " ")))
    return parts
