"""The page on which a person commands packs: the map from above, one's own mechs, and the enemies that one knows of."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from PIL import Image

from echelon.plan.ground import shade
from echelon.view.page import fill_template, read
from echelon.view.run_report import EDITOR, as_script

ASSETS = files("echelon.view") / "command"
SCRIPTS = ("battle.js", "field.js", "orders.js", "stick.js", "film.js", "command.js")
"""In the order they are read, after the keyboard of all pages and the editor's map, of which theirs is one."""


def command_page(facts: Mapping[str, Any]) -> str:
    """The page.

    Args:
        facts: `token`, `team`, `map` (its size x, y in vox), `ground` (`[Z, Y, X]` uint8, of whose names `materials`),
            `hulls` (size of each, vox); `watches`, True for who is shown a run that goes on and commands nothing.
    """
    data = {"watches": False, **{name: value for name, value in facts.items() if name != "materials"}}
    data["ground"] = ground_picture(facts["ground"], facts["materials"])
    scripts = [read("typed.js"), read("chart.js", EDITOR), *(read(name, ASSETS) for name in SCRIPTS)]
    content = {
        "<!-- title -->": html.escape(f"{facts['team']} · Echelon"),
        "/* style */": read("editor.css", EDITOR) + read("command.css", ASSETS),
        "<!-- data -->": as_script(data),
        "/* scripts */": "\n".join(scripts),
    }
    return fill_template(ASSETS, "command.html", content)


def ground_picture(ground: np.ndarray, materials: list[str]) -> str:
    """The lit ground `[Z, Y, X]` from above as the address of a PNG, a pixel a voxel, whose top is +y."""
    buffer = io.BytesIO()
    Image.fromarray(shade(ground, materials)[::-1]).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
