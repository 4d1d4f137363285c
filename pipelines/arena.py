"""Let commanders fight, and watch them.

python pipelines/arena.py play --blue X --red Y --battles N --seed S --replay battles.echelon
python pipelines/arena.py watch battles.echelon
python pipelines/arena.py maps --out maps.png
python pipelines/arena.py init|add|tournament|standings|… --league DIR
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import league
import torch
import tyro
from command_line import parse, run, terminal
from league import Fighting
from rich.table import Table

from echelon.agents.heuristic import is_scripted
from echelon.arena.batch_arena import COMPUTE
from echelon.arena.match import Match, Result, replay_of, wilson_interval
from echelon.arena.resolve import commander_env, commander_id, load_commander
from echelon.league.store import Store
from echelon.replay.file import read, save
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS, EnvConfig, battle_difference
from echelon.rules.roster import build_roster
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import check_writable
from echelon.runtime.profiling import profiled
from echelon.view.contact_sheet import Tile, draw_contact_sheet
from echelon.view.page import write_page
from echelon.view.painting import draw_gif, draw_strip
from echelon.world.pool import make_pool


@dataclass(frozen=True)
class Play:
    """Two commanders fight a batch of battles, every seed from both sides."""

    blue: str
    """Commander X: a checkpoint folder or heuristic[:tier]. It is blue in half of the battles."""
    red: str
    """Commander Y, the same."""
    league: Path | None = None
    """A league whose entries may be named as commanders."""
    battles: int = 64
    seed: int = 0
    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto takes the one a checkpoint was trained in, else small."""
    json: bool = False
    """Print one JSON object instead of a table."""
    fighting: tyro.conf.OmitArgPrefixes[Fighting] = field(default_factory=Fighting)
    profile: Path | None = None
    """Profile the match: write a trace here and print the costliest parts."""
    replay: Path | None = None
    """Record some of the battles into this file."""
    replay_battles: int = 4
    """How many; every seed from both sides."""
    replay_observations: bool = False
    """Also record every observation of every mech, about 8 MB a minute of 10v10."""


@dataclass(frozen=True)
class Watch:
    """Turn a replay into a page to watch it on, and into pictures. Nothing is loaded from a network."""

    file: tyro.conf.Positional[Path]
    """What `play --replay` wrote."""
    out: Path | None = None
    """The page; by default FILE.html beside the replay."""
    strip: Path | None = None
    """Also draw a row of pictures of one battle into this PNG."""
    gif: Path | None = None
    """Also draw one battle from above as a moving picture."""
    battle: int = 1
    """Which battle the pictures show."""


@dataclass(frozen=True)
class MapSheet:
    """Draw maps from above: one of each biome alone, then some as battles are fought on them."""

    out: Path = Path("maps.png")
    env: Literal["small", "standard", "large"] = "standard"
    maps: int = 8
    """How many of the pool to draw below the biomes."""
    map_seed: int = 0
    """Seed of the pool."""


COMMANDS: dict[str, Any] = {"play": Play, "watch": Watch, "maps": MapSheet, **league.COMMANDS}


def sources(args: Play) -> list[str]:
    """The commanders as checkpoint folders or scripted tiers; entries of a league by their folder there."""
    names = [args.blue, args.red]
    if args.league is None:
        return names
    store = Store(args.league)
    known = {name: store.find(name).id for name in names if not is_scripted(name) and not Path(name).exists()}
    return [str(store.weights.path(known[name])) if name in known else name for name in names]


def choose_env(preset: str, names: list[str]) -> EnvConfig:
    """The battle to fight: the preset asked for, or what the checkpoints were trained in."""
    if preset != "auto":
        return ENV_PRESETS[preset]()
    known = {name: env for name in names if (env := commander_env(name)) is not None}
    envs = list(known.values())
    if len(envs) == 2:
        difference = battle_difference(*(env.signature() for env in envs))
        if difference:
            raise ConfigError(f"the commanders come from different battles, choose one with --env: {difference}")
    return envs[0] if envs else EnvConfig.small()


def show(args: Play, result: Result) -> None:
    """Print the result as tables."""
    low, high = wilson_interval(result.x_wins, result.battles)
    console = terminal(soft_wrap=False)
    table = Table(title=f"{result.battles} battles, each seed from both sides")
    for column in ("", "wins", "share", "kills", "deaths", "damage", "zone s"):
        table.add_column(column, justify="left" if column == "" else "right")
    for name, wins, is_x in ((args.blue, result.x_wins, True), (args.red, result.y_wins, False)):
        stats = result.mean_stats(is_x)
        numbers = [f"{stats[key]:.1f}" for key in ("kills", "deaths", "damage", "zone_s")]
        table.add_row(name, str(wins), f"{wins / result.battles:.0%}", *numbers)
    console.print(table)
    draws = result.battles - result.x_wins - result.y_wins
    console.print(f"{args.blue} wins {result.x_wins / result.battles:.1%}, 95 % interval {low:.1%} to {high:.1%}")
    console.print(f"{draws} draws, {result.battles / result.seconds:.1f} battles/s")


def watch(args: Watch) -> None:
    """Read a replay and draw it."""
    page = args.out or args.file.with_suffix(".html")
    pictures = [path for path in (args.strip, args.gif) if path is not None]
    for path in (page, *pictures):
        check_writable(path)
    replay = read(args.file)
    count = len(replay.battles)
    require(1 <= args.battle <= count, "--battle", f"1..{count}, the battles of {args.file.name}", args.battle)
    grounds = [rebuild(replay, battle) for battle in replay.battles]
    write_page(replay, grounds, page)
    which = args.battle - 1
    if args.strip is not None:
        draw_strip(replay, which, grounds[which], args.strip)
    if args.gif is not None:
        draw_gif(replay, which, grounds[which], args.gif)
    console = terminal()
    for path in (page, *pictures):
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


def draw_maps(args: MapSheet) -> None:
    """Make maps and draw them."""
    check_writable(args.out)
    require(0 <= args.maps <= 256, "--maps", "0..256", args.maps)
    env = dataclasses.replace(ENV_PRESETS[args.env](), map_seed=args.map_seed, map_pool=max(args.maps, 1))
    tiles = []
    for name in env.world.biomes:
        alone = dataclasses.replace(env, map_pool=1, world=dataclasses.replace(env.world, biomes=(name,)))
        tiles += tiles_of(alone, [name.replace("_", " ")], marks=False)
    if args.maps > 0:
        tiles += tiles_of(env, [f"map {number} of seed {args.map_seed}" for number in range(args.maps)], marks=True)
    draw_contact_sheet(tiles, [material.name.lower() for material in Material], args.out)
    terminal().print(f"{args.out}  {len(tiles)} maps")


def tiles_of(env: EnvConfig, captions: list[str], marks: bool) -> list[Tile]:
    """A tile for each map of a pool; with its zone and its mechs where `marks`."""
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


def fight(args: Play) -> None:
    """Fight and report."""
    device = resolve_device(args.fighting.device)
    names = sources(args)
    env = choose_env(args.env, names)
    us, them = (commander_id(name) for name in names)
    x, y = (load_commander(name, env, device) for name in names)
    if us == them and getattr(x, "model", None) != getattr(y, "model", None):
        # The same weights in another architecture: a setting that no weight tells of.
        us, them = names
    fighting = args.fighting
    compute = COMPUTE[fighting.precision]
    match = Match((us, x), {them: y}, env, args.battles, device, fighting.batch, compute, fighting.compiled)
    recorder = None
    if args.profile is not None:
        check_writable(args.profile)
    if args.replay is not None:
        limit = f"1..{fighting.batch}, those of the first --batch"
        require(1 <= args.replay_battles <= fighting.batch, "--replay-battles", limit, args.replay_battles)
        check_writable(args.replay)
        recorder = Recorder(range(min(args.replay_battles, args.battles)), args.replay_observations)
    with profiled(args.profile):
        result = match.play(args.seed, recorder)[them]
    if args.replay is not None and recorder is not None:
        save(replay_of(recorder, args.blue, args.red), args.replay)
        terminal(stderr=True).print(f"replay      {args.replay}")
    if args.json:
        print(json.dumps({"x": args.blue, "y": args.red, "seed": args.seed, **result.as_json()}))
    else:
        show(args, result)


def main() -> None:
    """Do what the command line asks."""
    args = parse(lambda: tyro.extras.subcommand_cli_from_dict(COMMANDS))
    match args:
        case Play():
            fight(args)
        case Watch():
            watch(args)
        case MapSheet():
            draw_maps(args)
        case _:
            args.run()


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    run(main)
