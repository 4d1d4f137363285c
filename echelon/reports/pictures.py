"""Pictures of replays, maps and training runs for the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from echelon.agents.heuristic import full_name
from echelon.arena.evaluator import BEST
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.reports.plots import SHARES, Subplot, curves_figure, title_of
from echelon.reports.run_groups import Run, Statistic, middle
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.runtime.errors import require
from echelon.runtime.terminal import tracked
from echelon.scenarios.scene import config_of_words
from echelon.state import Maps
from echelon.viewer.battle_picture import GIF_S, draw_gif
from echelon.viewer.contact_sheet import Tile
from echelon.viewer.page import OtherReplay
from echelon.viewer.paper import save
from echelon.world.authored_maps import write_maps
from echelon.world.biomes import quadrants
from echelon.world.pool import make_maps, pool_seeds

GIF_PX_PER_IN = 69.0
"""Pixels per inch of the field; with its frame, an animation of 6.5 inches is about 474 px wide."""


def other_replay(path: Path) -> OtherReplay:
    """Load a replay that a page shows in addition to its first replay."""
    replay = read(path)
    return OtherReplay(path.name, replay, [rebuild(replay, battle) for battle in replay.battles])


def draw_moving(
    replay: Replay, index: int, ground: np.ndarray, path: Path, speed: float, size_in: float, span: tuple[float, float]
) -> None:
    """Draw a battle as an animated GIF, with a progress bar.

    Args:
        speed: playback speed; 1 is real time, 0 plays for `GIF_S` seconds.
        size_in: width in inches.
        span: start and end of the animated part, s.
    """
    seconds = (span[1] - span[0]) / speed if speed > 0 else GIF_S
    side_px = round(GIF_PX_PER_IN * size_in)
    draw_gif(replay, index, ground, path, seconds, side_px, span, lambda t, n: tracked(t, "frames", n))


def shown_span(
    replay: Replay, number: int, begin_s: float, end_s: float, times_s: Sequence[float]
) -> tuple[float, float]:
    """Return the time span of a battle (counted from 1) that pictures show; `end_s` 0 means the end of the battle.

    Raises:
        ConfigError: if a time is outside of the battle.
    """
    battle, about = replay.battles[number - 1], replay.about
    length = battle.decisions * about["dt_s"] * about["decision_repeat"]
    end = end_s if end_s > 0 else length
    require(0 <= begin_s < end, "--from", f"at least 0 and before --to, {end:g} s", begin_s)
    require(end <= length, "--to", f"at most {length:g} s, the length of battle {number}", end)
    for time in times_s:
        require(0 <= time <= length, "--times", f"0..{length:g} s, the length of battle {number}", time)
    return begin_s, end


def scenario_tiles(words: Sequence[str]) -> list[Tile]:
    """Return a tile (a captioned map) for each scenario, with the scenario's name as caption."""
    env = config_of_words(words)
    maps = write_maps(env).split(1)
    return [marked_tile(Path(word).stem, one, env) for word, one in zip(words, maps, strict=True)]


def pool_tiles(env: EnvConfig, count: int) -> list[Tile]:
    """Return a tile for each biome alone, then for the first `count` maps of the map pool, with a progress bar."""
    env = replace(env, map_pool=max(count, 1))
    names = [*env.world.biomes, *range(count)]
    return [_pool_tile(env, name) for name in tracked(names, "maps", len(names))]


def _pool_tile(env: EnvConfig, which: str | int) -> Tile:
    """Return the tile of one biome (a name), or of one map of the pool (an index)."""
    device = torch.device("cpu")
    if isinstance(which, str):
        env = replace(env, map_pool=1, world=replace(env.world, biomes=(which,)))
    number = 0 if isinstance(which, str) else which
    seeds = pool_seeds(env, device)[number : number + 1]
    maps = make_maps(env, build_roster(env, device), seeds)
    if isinstance(which, str):
        return Tile(which.replace("_", " "), maps.material[0].numpy())
    return marked_tile(f"map {which} of seed {env.map_seed}", maps, env)


def marked_tile(caption: str, maps: Maps, env: EnvConfig) -> Tile:
    """Return the tile of a map, with the zone, the spawns and the names of its areas."""
    x, y = maps.zone_center[0].tolist()
    spawn_pos, blue = maps.spawn_pos[0].tolist(), len(env.blue)
    spawns = [(pos[0], pos[1], int(n >= blue)) for n, pos in enumerate(spawn_pos)]
    zone = (x, y, float(maps.zone_radius[0]))
    labels = [] if env.positions else named_parts(maps.seed, env.world)
    return Tile(caption, maps.material[0].numpy(), zone, spawns, labels)


def named_parts(seeds: torch.Tensor, world: WorldConfig) -> list[tuple[float, float, str]]:
    """Return x and y of the centre of each area with a single biome in a seed's map, and the biome's name."""
    from scipy import ndimage  # takes a second to import

    biome = quadrants(seeds, world)[0].numpy()
    labels = []
    for index, name in enumerate(world.biomes):
        areas, count = ndimage.label(biome == index)
        for y, x in ndimage.center_of_mass(areas > 0, areas, range(1, count + 1)):
            labels.append((float(x) + 0.5, float(y) + 0.5, name.replace("_", " ")))
    return labels


SHOWN = ("return", "win_rate", "entropy")
"""Columns of `metrics.csv` that are drawn by default, after the evaluations."""


def check_folders(command: str, runs: Sequence[Path]) -> None:
    """Raise `ConfigError` if the list of run folders is empty, or has a folder twice."""
    require(len(runs) > 0, command, "given at least one run folder", runs)
    is_set = len({folder.resolve() for folder in runs}) == len(runs)
    require(is_set, command, "given each run folder once", list(map(str, runs)))


def draw_curves(
    runs: Sequence[Run], groups: Mapping[str, list[Run]], curves: Sequence[str], statistic: Statistic, path: Path
) -> int:
    """Draw the curves of groups of runs as one picture; return the number of panels.

    Args:
        groups: the runs, keyed by the label of their group.
        curves: columns of metrics.csv, and opponents of the evaluations; by default all opponents and some columns.
    """
    panels: dict[str, Subplot] = {}
    for name in curve_names(runs, curves):
        all_curves = {label: middle(members, name, statistic) for label, members in groups.items()}
        is_rival = any(name in run.rivals for run in runs)
        found = {label: curve for label, curve in all_curves.items() if curve is not None}
        title = f"win rate against {name}" if is_rival else title_of(name)
        panels[title] = Subplot(found, is_evaluation=is_rival, is_share=is_rival or name in SHARES)
    save(curves_figure(panels, curves_note([len(members) for members in groups.values()], panels, statistic)), path)
    return len(panels)


def curve_names(runs: Sequence[Run], curves: Sequence[str]) -> list[str]:
    """Return the names of the curves to draw; short names of scripted tiers are completed."""
    columns = set().union(*(run.columns for run in runs))
    rivals = list(dict.fromkeys(rival for run in runs for rival in run.rivals))
    names = [name if name in columns or name in rivals else full_name(name) for name in curves]
    for name in names:
        limit = f"a column of metrics.csv that has values, or one of {', '.join(rivals) or 'no evaluations'}"
        require(name in columns or name in rivals, "--curves", limit, name)
    default = [rival for rival in rivals if rival != BEST] + [name for name in SHOWN if name in columns]
    require(bool(curves or default), "plot", "given runs with metrics", [run.name for run in runs])
    return names or default


def curves_note(sizes: Sequence[int], panels: Mapping[str, Subplot], statistic: Statistic) -> str:
    """Return a note that explains lines, bands and bars, for groups of these sizes."""
    middle_name = "interquartile mean" if statistic == "iqm" else "mean"
    sentences = [f"{middle_name} over runs, with its 95 % interval"] if max(sizes) > 1 else []
    if min(sizes) == 1 and any(panel.is_evaluation for panel in panels.values()):
        sentences.append("evaluations of one run: 95 % interval over battles")
    return "; ".join(sentences)
