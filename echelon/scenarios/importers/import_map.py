"""Makes scenarios whose ground comes from another program's map file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.limits import SIDE
from echelon.rules.position import TEAMS, Unit
from echelon.rules.scenario import Scenario
from echelon.runtime.errors import require
from echelon.runtime.files import as_file_error, expect, read_file
from echelon.runtime.limits import Limits, Settings
from echelon.scenarios.importers.boxes import boxes_of
from echelon.scenarios.importers.ground import (
    HIGHEST,
    MATERIALS,
    MOST_BYTES,
    Crop,
    Ground,
    Heights,
    ReadOptions,
    dense_materials,
    expect_columns,
)
from echelon.scenarios.importers.teams import RADIUS_VOX, check_ways, place_teams
from echelon.scenarios.scene import check_playable

READERS = {
    ".vox": "vox",
    ".png": "heightmap",
    ".npy": "heightmap",
    ".hgt": "heightmap",
    ".tif": "geotiff",
    ".tiff": "geotiff",
    ".tmx": "tiled",
    ".tmj": "tiled",
    ".board": "board",
}
"""The module of this folder that reads a file, by the end of its name."""
ROOM_ABOVE_VOX = 8
"""Height of the map above its highest voxel, if that is not more than `HIGHEST`."""
LOWEST_MAP_VOX = 16


@dataclass(frozen=True)
class ImportSettings(Settings):
    """Settings of the conversion of a map file to ground."""

    scale: Annotated[float, Limits(0.001, 64)] = 1.0
    """Columns of ground for each column, sample or tile of the file; voxels are scaled along z too."""
    crop: tuple[int, ...] = ()
    """X Y WIDTH DEPTH: the part of the file that is imported, in its own columns, counted from the lower left corner
    (south-west); before it is scaled."""
    material: tuple[str, ...] = ()
    """NAME: material of what has no other one, solid by default. KEY=NAME or KEY=NAME:HEIGHT: material of a colour
    (index, or hexadecimal) of a .vox, of a layer or a tile class of Tiled, or of a terrain of a .board."""
    height: Annotated[int, Limits(0, HIGHEST, "vox")] = 0
    """Height of the highest place of the ground, vox, to which all heights are stretched; 0: 8 of a heightmap, as in
    the file otherwise."""
    margin: Annotated[int, Limits(0, 200, "vox")] = 0
    """Open ground added on every side. A side shorter than 32 vox is always filled up to 32."""
    preset: str = "small"
    """Whose rules and teams the scenario has: small (5v5), standard or large (10v10)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.crop) in (0, 4), "--crop", "X Y WIDTH DEPTH", self.crop)
        if self.crop:
            is_valid = min(self.crop) >= 0 and min(self.crop[2:]) >= 1
            require(is_valid, "--crop", "X, Y of 0 or more, WIDTH and DEPTH of 1 or more", self.crop)
        require(self.preset in ENV_PRESETS, "--preset", f"one of {', '.join(ENV_PRESETS)}", self.preset)

    @property
    def options(self) -> ReadOptions:
        """Return the options for the importers of all formats.

        Raises:
            ConfigError: if a material is unknown, or the default material is given twice.
        """
        named, default = {}, []
        for word in self.material:
            key, equals, value = word.rpartition("=")
            name, colon, height = value.partition(":")
            require(name in MATERIALS, "--material", f"one of {', '.join(MATERIALS)}", name)
            is_height = not colon or (height.isascii() and height.isdigit() and 1 <= int(height[:3]) <= HIGHEST)
            require(is_height and bool(equals or not colon), "--material", "NAME, KEY=NAME or KEY=NAME:HEIGHT", word)
            if equals:
                named[key] = (name, int(height or 0))
            else:
                default.append(name)
        require(len(default) <= 1, "--material", "one NAME without a KEY", default)
        crop = Crop(*self.crop) if self.crop else None
        return ReadOptions((default or ["solid"])[0], named, self.height, crop, self.scale)


@dataclass(frozen=True)
class ImportResult:
    """A scenario, and notes about parts of the file that were left out or filled in."""

    scenario: Scenario
    notes: tuple[str, ...]


def read_map(path: Path, settings: ImportSettings) -> Ground:
    """Return the ground of a map file after cropping and scaling.

    Raises:
        FileError: if the file's content does not match its suffix, or the file is too large.
        ConfigError: if a flag does not fit the file.
    """
    suffix, options = path.suffix.lower(), settings.options
    expected = f"one whose name ends in {', '.join(READERS)}"
    expect(suffix in READERS, f"{path.name}: file", expected, suffix)
    module: Any = import_module(f"{__package__}.{READERS[suffix]}")
    read: Callable[..., Ground | Heights] = module.read
    found = read(path, read_file(path, MOST_BYTES), options)
    options.expect_fits(path.name, found.size, not isinstance(found, Ground) or found.has_columns)
    if options.crop:
        found = found.cropped(options.crop)
    found = found.scaled(settings.scale, settings.height)
    return found if isinstance(found, Ground) else found.ground()


def imported(path: Path, settings: ImportSettings) -> ImportResult:
    """Return the scenario made from a map file, and notes about the conversion.

    Raises:
        FileError, ConfigError: as in `import_map`.
    """
    ground = read_map(path, settings)
    name = path.name
    size = [max(side + 2 * settings.margin, int(SIDE.low)) for side in ground.size[:2]]
    low = (size[0] - ground.size[0]) // 2, (size[1] - ground.size[1]) // 2
    expect_columns(name, size)
    dense = dense_materials(ground, (*size, HIGHEST), low)
    top = int(np.flatnonzero(dense.any((1, 2))).max(initial=-1)) + 1
    expect(top > 0, f"{name}: ground", "of at least one voxel", "none")
    size_z = min(max(top + ROOM_ABOVE_VOX, LOWEST_MAP_VOX), HIGHEST)
    preset = ENV_PRESETS[settings.preset]()
    world = replace(preset.world, size_x=size[0], size_y=size[1], size_z=size_z)
    battle = replace(preset, world=world)
    dense = dense[:size_z]
    boxes = boxes_of(name, dense)
    units, zone = units_and_zone(ground.with_places(1.0, low), dense, battle)
    with as_file_error(name):
        scenario = Scenario(units, boxes, zone, battle)
        check_playable(scenario)
    return ImportResult(scenario, ground.notes)


def units_and_zone(ground: Ground, dense: np.ndarray, battle: EnvConfig) -> tuple[tuple[Unit, ...], tuple[float, ...]]:
    """Return the mechs and the zone of a file; if the file has no mechs, those that `place_teams` chooses."""
    if not ground.units:
        units, zone = place_teams(ground.name, dense, (battle.blue, battle.red), battle.catalog)
        return units, ground.zone or zone
    for team in TEAMS:
        count = sum(unit.team == team for unit in ground.units)
        expect(count > 0, f"{ground.name}: mechs of {team}", "at least one, as the other team has", count)
    zone = ground.zone or (float(dense.shape[2] // 2), float(dense.shape[1] // 2), RADIUS_VOX)
    assert len(zone) == 3
    with as_file_error(ground.name):
        Scenario(ground.units, (), zone, battle)
    check_ways(ground.name, dense, ground.units, zone, battle.catalog)
    return ground.units, zone


def import_map(
    file: str | os.PathLike[str],
    scale: float = 1.0,
    crop: Sequence[int] = (),
    material: str | Sequence[str] = (),
    height: int = 0,
    margin: int = 0,
    preset: str = "small",
) -> Scenario:
    """Return a scenario with the ground of another program's map file (see `docs/MAPS.md`).

    The file's suffix selects the format. The formats are MagicaVoxel `.vox`; heightmaps `.png`, `.npy`, `.tif`, `.tiff`
    (the extra `maps`) and SRTM `.hgt`; Tiled `.tmx` and `.tmj`; and MegaMek `.board`. If the file names no mechs, the
    preset's teams are placed at the two ends of the largest connected part of the ground, with the zone between them.

    Args:
        file: path of the map file.
        scale: columns of ground for each column, sample or tile of the file; voxels are scaled along z too.
        crop: x, y, width and depth of the imported part, in columns of the file, counted from its lower left corner
            (south-west) before scaling.
        material: default material `NAME`, or `KEY=NAME` or `KEY=NAME:HEIGHT` for a colour, layer, tile class or
            terrain.
        height: height of the highest place of the ground, vox, to which all heights are stretched; 0 means 8 for a
            heightmap, and the file's own height otherwise.
        margin: open ground added on every side, vox.
        preset: one of `small`, `standard` and `large`, which defines the scenario's rules and teams.

    Returns:
        The scenario, which `scenario.save(path)` writes to a file.

    Raises:
        FileError: if the file cannot be read, does not have its suffix's format, is too large for the given flags, or
            its ground has no room for both teams.
        ConfigError: if an argument is out of range or does not fit the file.
    """
    words = (material,) if isinstance(material, str) else tuple(material)
    is_path = isinstance(file, str | os.PathLike)
    require(is_path, "file", "the path of a map file", file)
    settings = ImportSettings(scale, tuple(crop), words, height, margin, preset)
    return imported(Path(file), settings).scenario
