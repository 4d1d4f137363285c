"""The `arena.py` command that draws maps from above."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.reports.pictures import pool_tiles, scenario_tiles
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.runtime.terminal import terminal
from echelon.viewer.contact_sheet import draw_contact_sheet
from echelon.viewer.paper import require_picture


@dataclass(frozen=True)
class DrawMaps(Settings):
    """Draw maps from above: one for each biome, then maps of the map pool.

    Maps of the pool are drawn with their zone, spawns and the names of their biomes.
    """

    out: Path = Path("maps.png")
    """Output: a PDF with as many pages as needed, or a PNG or SVG per page, numbered."""
    env: Literal["small", "standard", "large"] = "standard"
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Draw the ground of these scenarios of equal shape instead: names of echelon.scenario_names() or JSON files."""
    maps: Annotated[int, Limits(0, 256)] = 8
    """Number of maps of the pool to draw after the biomes."""
    map_seed: Annotated[int, SEED] = 0
    """Seed of the map pool."""

    def run(self) -> None:
        require_picture("--out", self.out)
        check_writable(self.out)
        if self.scenario:
            is_alone = self == DrawMaps(out=self.out, scenario=self.scenario)
            require(is_alone, "--scenario", "used without --env, --maps and --map-seed", " ".join(self.scenario))
            tiles = scenario_tiles(self.scenario)
        else:
            tiles = pool_tiles(replace(ENV_PRESETS[self.env](), map_seed=self.map_seed), self.maps)
        for path in draw_contact_sheet(tiles, [material.name.lower() for material in Material], self.out):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
        terminal().print(f"{len(tiles)} maps")
