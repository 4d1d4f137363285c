"""The commands that draw: replays as a page and pictures, maps from above, runs over each other and their report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import tyro

from echelon.agents.heuristic import full_name
from echelon.arena.evaluator import BEST
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import tracked
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.reports.many_runs import report_of_runs
from echelon.reports.plots import SHARES, Subplot, curves_figure, title_of
from echelon.reports.run_groups import Run, Statistic, grouped, middle, read_run
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS, EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.scenarios.scene import config_of_words
from echelon.state import Maps
from echelon.view.contact_sheet import Tile, draw_contact_sheet
from echelon.view.page import OtherReplay, write_page
from echelon.view.paper import FORMATS, WIDTH_IN, save
from echelon.view.run_report import write_report
from echelon.view.strip import GIF_S, draw_gif, strip_figure
from echelon.world.biomes import quadrants
from echelon.world.pool import make_maps, pool_seeds
from echelon.world.written import write_maps

GIF_PX_PER_IN = 69.0
"""Of the field; with its frame a moving picture of 6.5 inches is about 474 px wide."""
MOST_TIMES = 40


@dataclass(frozen=True)
class Watch(Settings):
    """Turn a replay into an HTML page, and into pictures. The page loads nothing from the network."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    beside: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    """Another replay whose battles the page holds too, to be compared with these. Repeatable."""
    out: Path | None = None
    """The page; by default FILE.html next to the replay, or here if nothing can be written there."""
    strip: Path | None = None
    """Also draw a row of moments of one battle, for a paper, into this PDF, SVG or PNG."""
    gif: Path | None = None
    """Also draw one battle from above as a moving picture."""
    battle: int = 1
    """Which battle the pictures show."""
    begin: Annotated[float, tyro.conf.arg(name="from")] = 0.0
    """When the pictures begin, s."""
    end: Annotated[float, tyro.conf.arg(name="to")] = 0.0
    """When they end, s; 0: with the battle."""
    times: tuple[float, ...] = ()
    """Moments of the strip, s; by default four between which equal shares of the damage were done. One makes a single
    picture."""
    speed: Annotated[float, Limits(0.0, 1000.0)] = 0.0
    """Speed of the moving picture, 1 as it happened; 0: as fast as makes it 8 s long."""
    size: Annotated[float, Limits(1.0, 40.0, "inches")] = WIDTH_IN
    """Width in inches: of a strip as it is printed, text of 7 and 8 pt; of a moving picture at 72 pixels an inch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.times) <= MOST_TIMES, "--times", f"at most {MOST_TIMES} moments", len(self.times))

    def run(self) -> None:
        page = self.out or beside(self.file, self.file.with_suffix(".html").name)
        pictures = [path for path in (self.strip, self.gif) if path is not None]
        require(page != self.file, "--out", "another file than the replay", str(page))
        require_picture("--strip", self.strip)
        require_picture("--gif", self.gif, (".gif",))
        paths = [path.resolve() for path in (page, *pictures)]
        require(len({*paths, self.file.resolve()}) == 1 + len(paths), "outputs", "files of their own", paths)
        check_writable(page, *pictures)
        replay = read(self.file)
        count = len(replay.battles)
        require(1 <= self.battle <= count, "--battle", f"1..{count}, the battles of {self.file.name}", self.battle)
        span = self.span(replay)
        grounds = [rebuild(replay, battle) for battle in tracked(replay.battles, "maps", count)]
        write_page(replay, grounds, page, [self.other(path) for path in self.beside])
        self.draw(replay, grounds[self.battle - 1], span)
        for path in (page, *pictures):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")

    def other(self, path: Path) -> OtherReplay:
        replay = read(path)
        return OtherReplay(path.name, replay, [rebuild(replay, battle) for battle in replay.battles])

    def draw(self, replay: Replay, ground: np.ndarray, span: tuple[float, float]) -> None:
        index, (begin, end) = self.battle - 1, span
        if self.strip is not None:
            save(strip_figure(replay, index, ground, self.times, self.size, span), self.strip)
        if self.gif is not None:
            seconds = (end - begin) / self.speed if self.speed > 0 else GIF_S
            side_px = round(GIF_PX_PER_IN * self.size)
            draw_gif(replay, index, ground, self.gif, seconds, side_px, span, lambda t, n: tracked(t, "frames", n))

    def span(self, replay: Replay) -> tuple[float, float]:
        """From when until when the pictures show the battle, s."""
        battle, about = replay.battles[self.battle - 1], replay.about
        length = battle.decisions * about["dt_s"] * about["decision_repeat"]
        end = self.end if self.end > 0 else length
        require(0 <= self.begin < end, "--from", f"at least 0 and before --to, {end:g} s", self.begin)
        require(end <= length, "--to", f"at most {length:g} s, the length of battle {self.battle}", end)
        for time in self.times:
            require(0 <= time <= length, "--times", f"0..{length:g} s, the length of battle {self.battle}", time)
        return self.begin, end


def beside(file: Path, name: str) -> Path:
    """Where a file about another one goes by default: next to it, or into the working folder if that is read-only."""
    return file.with_name(name) if os.access(file.parent, os.W_OK) else Path(name)


def require_picture(flag: str, path: Path | None, suffixes: tuple[str, ...] = FORMATS) -> None:
    """Refuse a name that says another kind of picture than can be drawn."""
    fits = path is None or path.suffix.lower() in suffixes
    require(fits, flag, f"the name of a picture that ends with {' or '.join(suffixes)}", str(path))


@dataclass(frozen=True)
class DrawMaps(Settings):
    """Draw maps from above: one per single biome, then some of the map pool with zone and spawns, and with the names of
    the biomes that they consist of."""

    out: Path = Path("maps.png")
    """A PDF, of as many pages as needed, or a PNG or SVG, several of which are numbered."""
    env: Literal["small", "standard", "large"] = "standard"
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """In place of both the ground of scenarios of one shape: names of echelon.scenario_names() or JSON files."""
    maps: Annotated[int, Limits(0, 256)] = 8
    """Number of maps of the pool to draw below the biomes."""
    map_seed: Annotated[int, SEED] = 0
    """Seed of the pool."""

    def run(self) -> None:
        require_picture("--out", self.out)
        check_writable(self.out)
        env = replace(ENV_PRESETS[self.env](), map_seed=self.map_seed, map_pool=max(self.maps, 1))
        names = [*env.world.biomes, *range(self.maps)]
        tiles = (
            self.written() if self.scenario else [self.tile(env, name) for name in tracked(names, "maps", len(names))]
        )
        for path in draw_contact_sheet(tiles, [material.name.lower() for material in Material], self.out):
            terminal().print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
        terminal().print(f"{len(tiles)} maps")

    def written(self) -> list[Tile]:
        """The ground of each scenario, by the word that names it."""
        is_alone = self == DrawMaps(out=self.out, scenario=self.scenario)
        require(is_alone, "--scenario", "given without --env, --maps and --map-seed", " ".join(self.scenario))
        env = config_of_words(self.scenario)
        maps = write_maps(env).split(1)
        return [
            marked_tile(Path(word).stem, map_tensors, env)
            for word, map_tensors in zip(self.scenario, maps, strict=True)
        ]

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
    spawn_pos, blue = maps.spawn_pos[0].tolist(), len(env.blue)
    spawns = [(pos[0], pos[1], int(n >= blue)) for n, pos in enumerate(spawn_pos)]
    zone = (x, y, float(maps.zone_radius[0]))
    labels = [] if env.positions else named_parts(maps.seed, env.world)
    return Tile(caption, maps.material[0].numpy(), zone, spawns, labels)


def named_parts(seeds: torch.Tensor, world: WorldConfig) -> list[tuple[float, float, str]]:
    """x, y of the middle of every part of the map of a seed that is of one biome, and the biome's name."""
    from scipy import ndimage  # takes a second to import

    biome = quadrants(seeds, world)[0].numpy()
    labels = []
    for index, name in enumerate(world.biomes):
        areas, count = ndimage.label(biome == index)
        for y, x in ndimage.center_of_mass(areas > 0, areas, range(1, count + 1)):
            labels.append((float(x) + 0.5, float(y) + 0.5, name.replace("_", " ")))
    return labels


SHOWN = ("return", "win_rate", "entropy")
"""Columns of `metrics.csv` that are drawn by default, behind the evaluations."""


@dataclass(frozen=True)
class Plot:
    """Draw training runs over each other. Runs that differ by their seeds alone are one curve with a 95 % bootstrap
    interval over runs; groups are named by the settings in which they differ."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.pdf")
    """The picture, 6.5 inches wide: a PDF, SVG or PNG by its name."""
    curves: tuple[str, ...] = ()
    """What to draw: columns of metrics.csv, and commanders of the evaluations, tiers by short names too; by default all
    of these, and some of those."""
    statistic: Statistic = "mean"
    """Middle of a group: mean, or iqm, the interquartile mean, which a single odd run moves little."""
    each: bool = False
    """Draw every run by itself."""

    def run(self) -> None:
        check_folders("plot", self.runs)
        require_picture("--out", self.out)
        check_writable(self.out)
        runs = [read_run(folder) for folder in self.runs]
        groups = (
            {str(folder): [run] for folder, run in zip(self.runs, runs, strict=True)} if self.each else grouped(runs)
        )
        panels: dict[str, Subplot] = {}
        for name in self.names(runs):
            all_curves = {label: middle(members, name, self.statistic) for label, members in groups.items()}
            is_rival = any(name in run.rivals for run in runs)
            curves = {label: curve for label, curve in all_curves.items() if curve is not None}
            title = f"win rate against {name}" if is_rival else title_of(name)
            panels[title] = Subplot(curves, is_evaluation=is_rival, is_share=is_rival or name in SHARES)
        save(curves_figure(panels, self.note([len(members) for members in groups.values()], panels)), self.out)
        for label, members in groups.items():
            terminal().print(f"{label}: {', '.join(run.name for run in members)}")
        terminal().print(f"{self.out}  {len(panels)} curves of {len(runs)} runs")

    def names(self, runs: list[Run]) -> list[str]:
        columns = set().union(*(run.columns for run in runs))
        rivals = list(dict.fromkeys(rival for run in runs for rival in run.rivals))
        names = [name if name in columns or name in rivals else full_name(name) for name in self.curves]
        for name in names:
            limit = f"a column of metrics.csv that has values, or one of {', '.join(rivals) or 'no evaluations'}"
            require(name in columns or name in rivals, "--curves", limit, name)
        default = [rival for rival in rivals if rival != BEST] + [name for name in SHOWN if name in columns]
        require(bool(self.curves or default), "plot", "given runs with metrics", [run.name for run in runs])
        return names or default

    def note(self, sizes: Sequence[int], panels: Mapping[str, Subplot]) -> str:
        """What lines, bands and bars are, for groups of so many runs."""
        middle_name = "interquartile mean" if self.statistic == "iqm" else "mean"
        sentences = [f"{middle_name} over runs, 95 % bootstrap interval"] if max(sizes) > 1 else []
        if min(sizes) == 1 and any(panel.is_evaluation for panel in panels.values()):
            sentences.append("evaluations of one run: 95 % interval over battles")
        return "; ".join(sentences)


def check_folders(command: str, runs: Sequence[Path]) -> None:
    """Refuse no run folder at all, and one that is named twice."""
    require(len(runs) > 0, command, "given one run folder at least", runs)
    is_set = len({folder.resolve() for folder in runs}) == len(runs)
    require(is_set, command, "given each run folder once", list(map(str, runs)))


@dataclass(frozen=True)
class Report:
    """Write a page about several training runs: curves with bands over seeds, groups beside each other, in which
    settings runs differ, and where each comes from. A run writes the report of itself."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path = Path("runs.html")
    """The page."""
    statistic: Statistic = "mean"
    """Middle of a group: mean, or iqm, the interquartile mean, which a single odd run moves little."""

    def run(self) -> None:
        check_folders("report", self.runs)
        check_writable(self.out)
        folders = [folder.resolve() for folder in self.runs]
        report = report_of_runs([read_run(folder) for folder in folders], folders, self.statistic)
        write_report(report, self.out)
        terminal().print(f"{self.out}  {report['name']}")
