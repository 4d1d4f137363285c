"""Writes a replay as one self-contained HTML file with markup, style, scripts and data."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.replay.battle import OPTIONAL, Battle, Replay
from echelon.replay.file import NAMES
from echelon.replay.ground import name_map, objective_of, objective_text, opaque_materials, zones_of
from echelon.replay.observed import describe_observed, observed_arrays
from echelon.runtime.files import write_whole

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


ASSETS = files("echelon.viewer") / "page"
SCRIPTS = (
    *("payload.js", "linear.js", "palette.js", "battle.js", "names.js", "damage_table.js", "observed.js"),
    *("history.js", "event_log.js", "ground.js", "mesh.js", "figures.js", "shaders.js", "device.js", "camera.js"),
    *("effects.js", "pyrotechnics.js", "scene.js", "plan.js", "overlay.js", "intent.js", "sight.js", "layers.js"),
    *("playback.js", "lane_overlay.js", "timeline.js", "roster.js", "feed.js", "missiles.js", "radar.js"),
    *("cockpit.js", "statistics.js", "chart.js", "screens.js", "side_stats.js", "shots.js", "channels.js"),
    *("analysis_panel.js", "compare.js", "share.js", "tables.js", "api.js", "gestures.js", "typed.js", "keys.js"),
    *("address.js", "wiring.js", "viewer.js"),
)
"""Scripts in loading order: they are concatenated, so later ones may use earlier ones."""


@dataclass(frozen=True)
class OtherReplay:
    """Another replay on the same page."""

    name: str
    """Name of its file."""
    replay: Replay
    grounds: list[np.ndarray]


def write_page(replay: Replay, grounds: list[np.ndarray], path: Path, beside: Sequence[OtherReplay] = ()) -> None:
    """Write the HTML page that plays a replay.

    Args:
        grounds: for each battle, its initial materials `[Z, Y, X]` uint8.
        beside: further replays, whose battles are listed after those of `replay`.
    """
    data = base64.b64encode(pack(replay, grounds, beside)).decode()
    content = {
        "/* style */": read("viewer.css"),
        "/* scripts */": "\n".join(read(name) for name in SCRIPTS),
        "<!-- data -->": data,
    }
    write_whole(path, fill_template(ASSETS, "viewer.html", content).encode())


def fill_template(folder: Traversable, name: str, parts: Mapping[str, str]) -> str:
    """Return the text of a template file; for each key of `parts`, its first occurrence is replaced by the value."""
    text = read(name, folder)
    for key, content in parts.items():
        before, separator, after = text.partition(key)
        if not separator:
            raise ValueError(f"{name}: expected {key}")
        text = before + content + after
    return text


def read(name: str, folder: Traversable = ASSETS) -> str:
    return (folder / name).read_text(encoding="utf-8")


GROUND = "ground"
"""Name of the array of a battle's ground, in addition to those of `Battle`."""
HEADER_BYTES = 4


@dataclass(frozen=True)
class Payload:
    """The unpacked data of a replay page."""

    about: dict[str, Any]
    battles: list[dict[str, Any]]
    """For each battle, `about` and `decisions`."""
    arrays: list[dict[str, np.ndarray]]
    """For each battle, its arrays by name, including the ground."""
    observed: dict[str, Any]
    """Description of the observations, see `echelon.replay.observed.describe_observed`."""


def arrays_of(replay: Replay, battle: Battle, ground: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a battle by name, with its ground `[Z, Y, X]` uint8 and its observations, if recorded."""
    # A page shows the orders that mechs received, not the commands that commanders sent.
    names = [name for name in OPTIONAL if name != "commands"]
    optional = {name: array for name in names if (array := getattr(battle, name)) is not None}
    observed = observed_arrays(replay, battle, ground)
    return {**{name: getattr(battle, name) for name in NAMES}, **optional, GROUND: ground, **observed}


def about_of(replay: Replay, battle: Battle) -> dict[str, Any]:
    """Return a battle's metadata for a page, with all zones and the objective in words."""
    recipe = battle.about["map"]
    return {
        **battle.about,
        **{side: short_name(battle.about[side]) for side in ("blue", "red")},
        "map": {**recipe, **dataclasses.asdict(name_map(replay, battle))} if recipe else {},
        "zones": zones_of(replay, battle),
        "objective": objective_text(objective_of(replay, battle), replay.about["zone_score_to_win_s"]),
    }


def shared(replay: Replay) -> dict[str, Any]:
    """Return the data that all battles of a replay share: settings, description of observations, opaque materials."""
    return {"about": replay.about, "observed": describe_observed(replay), "opaque": opaque_materials(replay)}


def pack(replay: Replay, grounds: list[np.ndarray], beside: Sequence[OtherReplay] = ()) -> bytes:
    """Compress replays and the initial ground `[Z, Y, X]` of each of their battles."""
    headers: list[dict[str, Any]] = []
    bodies: list[bytes] = []
    for number, (source, ground_arrays) in enumerate(
        [(replay, grounds), *((other.replay, other.grounds) for other in beside)]
    ):
        if len(ground_arrays) != len(source.battles):
            raise ValueError(f"expected a ground for each of {len(source.battles)} battles, got {len(ground_arrays)}")
        for battle, ground in zip(source.battles, ground_arrays, strict=True):
            arrays = arrays_of(source, battle, ground)
            header = {
                "about": about_of(source, battle),
                "decisions": battle.decisions,
                "arrays": [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()],
            }
            headers.append({**header, "beside": number - 1} if number else header)
            bodies += [encode(array) for array in arrays.values()]
    other_facts = [{"name": other.name, **shared(other.replay)} for other in beside]
    header_json = {**shared(replay), "battles": headers, "beside": other_facts}
    header_bytes = json.dumps(header_json, separators=(",", ":")).encode()
    length = len(header_bytes).to_bytes(HEADER_BYTES, "little")
    return zlib.compress(b"".join((length, header_bytes, *bodies)), 9)


def unpack(packed: bytes) -> Payload:
    """Decompress the result of `pack` as the page's script does."""
    data = zlib.decompress(packed)
    begin = HEADER_BYTES + int.from_bytes(data[:HEADER_BYTES], "little")
    header = json.loads(data[HEADER_BYTES:begin])
    battles = []
    for battle in header["battles"]:
        arrays = {}
        for name, kind, shape in battle.pop("arrays"):
            end = begin + int(np.prod(shape)) * np.dtype(kind).itemsize
            arrays[name] = decode(data[begin:end], kind, shape)
            begin = end
        battles.append(arrays)
    if begin != len(data):
        raise ValueError(f"expected a payload of {begin} bytes, got {len(data)}")
    return Payload(header["about"], header["battles"], battles, header["observed"])


def encode(array: np.ndarray) -> bytes:
    """Encode an array for compression: differences along the first axis, stored byte plane by byte plane.

    The first axis is moved to the end.
    """
    course = np.moveaxis(array, 0, -1)
    steps = np.diff(course, axis=-1, prepend=np.zeros_like(course[..., :1])).astype(array.dtype)
    as_bytes = np.ascontiguousarray(steps).astype(array.dtype.newbyteorder("<")).view(np.uint8)
    return as_bytes.reshape(-1, array.dtype.itemsize).T.tobytes()


def decode(data: bytes, kind: str, shape: list[int]) -> np.ndarray:
    """Decode the result of `encode`."""
    dtype = np.dtype(kind)
    planes = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1)
    steps = np.ascontiguousarray(planes.T).view(dtype.newbyteorder("<")).reshape(*shape[1:], shape[0])
    return np.moveaxis(np.cumsum(steps, axis=-1, dtype=dtype), -1, 0)


OF_EVERY_RUN = frozenset({"checkpoints", "runs"})
"""Folder names that do not identify a run."""
SUFFIXES = (".safetensors", ".pt")
BEGINS_A_PATH = re.compile(r"[a-z]+:(?=[/~.])|(?=[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\])")


def short_name(commander: str) -> str:
    """Return a commander's name without its path; for a checkpoint, the names of its run and of the checkpoint.

    For example, `/home/me/runs/first/checkpoints/00000512` becomes `first 00000512`.
    """
    names = [part for part in re.split(r"[/\\]", commander) if part not in ("", ".", "..", "~")]
    is_path = BEGINS_A_PATH.match(commander) is not None or OF_EVERY_RUN & set(names[:-1])
    if not is_path or not names:
        return commander
    last = names[-1]
    for suffix in SUFFIXES:
        last = last.removesuffix(suffix)
    run = next((name for name in reversed(names[:-1]) if name not in OF_EVERY_RUN and not name.endswith(":")), "")
    is_of_run = len(names) > 1 and names[-2] == "checkpoints"
    return f"{run} {last}".strip() if is_of_run else last
