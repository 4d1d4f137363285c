"""A replay as one HTML file that needs nothing else: markup, style, scripts and data in one."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from echelon.replay.battle import Replay
from echelon.runtime.files import write_whole
from echelon.view.payload import pack

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ASSETS = files("echelon.view") / "page"
SCRIPTS = (
    "payload.js",
    "linear.js",
    "palette.js",
    "battle.js",
    "names.js",
    "ledger.js",
    "observed.js",
    "history.js",
    "tale.js",
    "ground.js",
    "mesh.js",
    "figures.js",
    "shaders.js",
    "device.js",
    "camera.js",
    "effects.js",
    "pyrotechnics.js",
    "scene.js",
    "plan.js",
    "overlay.js",
    "intent.js",
    "playback.js",
    "lanes.js",
    "timeline.js",
    "roster.js",
    "feed.js",
    "missiles.js",
    "radar.js",
    "cockpit.js",
    "statistics.js",
    "compare.js",
    "share.js",
    "gestures.js",
    "keys.js",
    "address.js",
    "wiring.js",
    "viewer.js",
)
"""In the order they are read: one script, so that later ones may use earlier ones."""


def write_page(replay: Replay, grounds: list[np.ndarray], path: Path) -> None:
    """Write the viewer of a replay.

    Args:
        grounds: for each battle the materials `[Z, Y, X]` uint8 on which it began.
    """
    data = base64.b64encode(pack(replay, grounds)).decode()
    parts = {
        "/* style */": read("viewer.css"),
        "/* scripts */": "\n".join(read(name) for name in SCRIPTS),
        "<!-- data -->": data,
    }
    write_whole(path, fill_template(ASSETS, "viewer.html", parts).encode())


def fill_template(folder: Traversable, name: str, parts: Mapping[str, str]) -> str:
    """The text of an asset of a folder with the first of each place, a key of `parts`, replaced in their order."""
    text = read(name, folder)
    for place, content in parts.items():
        before, found, after = text.partition(place)
        if not found:
            raise ValueError(f"{name}: expected {place}")
        text = before + content + after
    return text


def read(name: str, folder: Traversable = ASSETS) -> str:
    return (folder / name).read_text(encoding="utf-8")
