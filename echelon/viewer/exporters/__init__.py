"""Export of replays to other programs: one module per format, and `export_replay` for all of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Literal, get_args

from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.ground import rebuild
from echelon.runtime.errors import ConfigError, missing_package, require
from echelon.runtime.files import check_writable
from echelon.viewer.exporters.course import BattleTimeline

Format = Literal["csv", "tacview", "gltf", "mp4", "rerun"]
SUFFIXES: dict[Format, str] = {"csv": ".csv", "tacview": ".acmi", "gltf": ".glb", "mp4": ".mp4", "rerun": ".rrd"}
"""Ending of the file name by format. Other programs choose a reader by it."""
MODULES: dict[Format, str] = {
    "csv": "event_table",
    "tacview": "tacview",
    "gltf": "gltf",
    "mp4": "video",
    "rerun": "rerun_recording",
}
"""Module of this package by format. Each has a function `write(course, path)`."""


def export_replay(replay: Replay | Path | str, to: Format, out: Path | str, battle: int = 1) -> None:
    """Write one battle of a replay as a file for another program (see docs/EXPORTS.md).

    Args:
        replay: a replay, or the path of its file.
        to: the format of the new file. The formats `mp4` and `rerun` need the extra `export`.
        out: path of the new file, which replaces an existing one. The path must end with the format's suffix.
        battle: number of the battle in the replay, from 1.

    Raises:
        ConfigError: if an argument is out of range, or a package is missing.
        FileError: if the replay cannot be read, or the file cannot be written.
    """
    require(to in get_args(Format), "to", f"one of {', '.join(SUFFIXES)}", to)
    path = Path(out)
    require(path.suffix.lower() == SUFFIXES[to], "out", f"the name of a file that ends with {SUFFIXES[to]}", str(path))
    try:
        writer = importlib.import_module(f"{__name__}.{MODULES[to]}")
    except ModuleNotFoundError as error:
        raise ConfigError(missing_package(f"format {to}", error.name, "export")) from None
    replay = replay if isinstance(replay, Replay) else read(Path(replay))
    count = len(replay.battles)
    require(1 <= battle <= count, "battle", f"1..{count}, the battles of the replay", battle)
    check_writable(path)
    ground = rebuild(replay, replay.battles[battle - 1])
    writer.write(BattleTimeline(replay, battle - 1, ground), path)
