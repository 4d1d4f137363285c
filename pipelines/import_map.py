"""The `arena.py` command that converts a map file of another program to a scenario."""

from dataclasses import dataclass, fields
from pathlib import Path

import tyro

from echelon.runtime.files import check_writable
from echelon.runtime.terminal import terminal
from echelon.scenarios.importers.import_map import ImportSettings, imported


@dataclass(frozen=True)
class ImportMap(ImportSettings):
    """Make a scenario with the ground of another program's map file (docs/MAPS.md).

    The formats are MagicaVoxel .vox, heightmaps (.png, .npy, .tif, .hgt), Tiled .tmx and .tmj, MegaMek .board.
    """

    file: tyro.conf.Positional[Path] = Path("map.vox")
    """The map file; the end of its name tells the format."""
    out: Path | None = None
    """Scenario file to write; by default the name of the map with .json, in the current folder."""

    def run(self) -> None:
        settings = ImportSettings(**{each.name: getattr(self, each.name) for each in fields(ImportSettings)})
        out = self.out or Path(f"{self.file.stem}.json")
        found = imported(self.file, settings)
        check_writable(out)
        found.scenario.save(out)
        x, y, z = found.scenario.settings.world.size
        zone = ", ".join(f"{value:g}" for value in found.scenario.zone)
        lines = [f"ground      {x} x {y} x {z} vox, {len(found.scenario.boxes)} boxes"]
        lines += [f"teams       {len(found.scenario.units)} mechs, zone {zone}"]
        for line in (*lines, *found.notes, str(out)):
            terminal().print(line)
