"""The page on which a scenario is drawn, as one HTML file that loads nothing: a server answers what it asks for."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from echelon.runtime.errors import one_line
from echelon.view.page import fill_template, read
from echelon.view.run_report import as_script

ASSETS = files("echelon.view") / "editor"
SCRIPTS = ("scenario.js", "chart.js", "tools.js", "panel.js", "editor.js")
"""In the order they are read: one script, so that later ones may use earlier ones."""


def editor_page(facts: Mapping[str, Any]) -> str:
    """The editor's page.

    Args:
        facts: `file` (its name), `scenario` (its JSON), `token`, and what a scenario may be made of: `presets` (size of
            the map, default zone), `hulls` (their size), `materials`, `objectives` (fields of each kind), `commanders`.
    """
    parts = {
        "<!-- title -->": html.escape(one_line(facts["file"])),
        "/* style */": read("editor.css", ASSETS),
        "<!-- data -->": as_script(facts),
        "/* scripts */": "\n".join(read(name, ASSETS) for name in SCRIPTS),
    }
    return fill_template(ASSETS, "editor.html", parts)
