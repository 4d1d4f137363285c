"""The commands of `arena.py` that draw: a page and pictures of a replay, an overview of maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
import tyro

from echelon.pipelines.console import terminal
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.roster import build_roster
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, check_settings
from echelon.view.contact_sheet import Tile, draw_contact_sheet
from echelon.view.page import write_page
from echelon.view.painting import draw_gif, draw_strip
from echelon.world.pool import make_pool


@dataclass(frozen=True)
class Watch:
    """Turn a replay into an HTML page, and into pictures. The page loads nothing from the network."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    out: Path | None = None
    """The page; by default FILE.html next to the replay."""
    strip: Path | None = None
    """Also draw a row of pictures of one battle into this PNG."""
    gif: Path | None = None
    """Also draw one battle from above as a moving picture."""
    battle: int = 1
    """Which battle the pictures show."""

    def run(self) -> None:
        """Read the replay and draw it."""
        page = self.out or self.file.with_suffix(".html")
        pictures = [path for path in (self.strip, self.gif) if path is not None]
        require(page != self.file, "--out", "another file than the replay", str(page))
        for flag, path, suffix in (("--strip", self.strip, ".png"), ("--gif", self.gif, ".gif")):
            require_suffix(flag, path, suffix)
        written = [path.resolve() for path in (page, *pictures)]
        require(len({*written, self.file.resolve()}) == 1 + len(written), "outputs", "files of their own", written)
        for path in (page, *pictures):
            check_writable(path)
        replay = read(self.file)
        count = len(replay.battles)
        require(1 <= self.battle <= count, "--battle", f"1..{count}, the battles of {self.file.name}", self.battle)
        grounds = [rebuild(replay, battle) for battle in replay.battles]
        write_page(replay, grounds, page)
        which = self.battle - 1
        if self.strip is not None:
            draw_strip(replay, which, grounds[which], self.strip)
        if self.gif is not None:
            draw_gif(replay, which, grounds[which], self.gif)
        for path in (page, *pictures):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class DrawMaps:
    """Draw maps from above: one per single biome, then some of the map pool with zone and spawns."""

    out: Path = Path("maps.png")
    env: Literal["small", "standard", "large"] = "standard"
    maps: int = 8
    """Number of maps of the pool to draw below the biomes."""
    map_seed: int = 0
    """Seed of the pool."""

    def __post_init__(self) -> None:
        check_settings(self, {"maps": Limits(0, 256), "map_seed": SEED})

    def run(self) -> None:
        """Make maps and draw them."""
        require_suffix("--out", self.out, ".png")
        check_writable(self.out)
        env = replace(ENV_PRESETS[self.env](), map_seed=self.map_seed, map_pool=max(self.maps, 1))
        tiles = []
        for name in env.world.biomes:
            alone = replace(env, map_pool=1, world=replace(env.world, biomes=(name,)))
            tiles += tiles_of(alone, [name.replace("_", " ")], marks=False)
        if self.maps > 0:
            captions = [f"map {number} of seed {self.map_seed}" for number in range(self.maps)]
            tiles += tiles_of(env, captions, marks=True)
        draw_contact_sheet(tiles, [material.name.lower() for material in Material], self.out)
        terminal().print(f"{self.out}  {len(tiles)} maps")


def require_suffix(flag: str, path: Path | None, suffix: str) -> None:
    """Refuse a name that says another kind of picture than is drawn.

    Raises:
        ConfigError: naming the flag.
    """
    fits = path is None or path.suffix.lower() == suffix
    require(fits, flag, f"the name of a picture, such as picture{suffix}", str(path))


def tiles_of(env: EnvConfig, captions: list[str], marks: bool) -> list[Tile]:
    """A tile per map of the pool of `env`, with zone and spawn positions if `marks`."""
    device = torch.device("cpu")
    maps, blue = make_pool(env, build_roster(env, device), device), len(env.blue)
    tiles = []
    for number, caption in enumerate(captions):
        ground = maps.material[number].numpy()
        x, y = maps.zone_center[number].tolist()
        places = maps.spawn_pos[number].tolist()
        spawns = [(place[0], place[1], int(n >= blue)) for n, place in enumerate(places)]
        marked = Tile(caption, ground, (x, y, float(maps.zone_radius[number])), spawns)
        tiles.append(marked if marks else Tile(caption, ground))
    return tiles
