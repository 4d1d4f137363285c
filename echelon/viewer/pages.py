"""Self-contained HTML pages: the report of a training run, the scenario editor, and the command page."""

import base64
import html
import io
import json
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from echelon.replay.battle import POS_PER_VOX, TABLES, Battle, FlightEnd, Replay
from echelon.runtime.errors import one_line
from echelon.runtime.files import write_whole
from echelon.viewer.page import fill_template, read, write_page
from echelon.viewer.topdown import shade

REPORT = files("echelon.viewer") / "report_page"
FEWEST_HITS = 3
"""Minimum number of hits for which a weapon's distances are shown."""


def write_report(report: Mapping[str, Any], path: Path, page: str = "") -> None:
    """Write a report page.

    Args:
        report: result of `echelon.reports.data.report_of`.
        page: the HTML page of a replay to embed, from `replay_page`.
    """
    content = {
        "<!-- title -->": html.escape(one_line(report["name"])),
        "/* style */": read("report.css", REPORT),
        "<!-- data -->": as_script(report),
        "<!-- page -->": as_script(page),
        "/* script */": read("report.js", REPORT),
    }
    write_whole(path, fill_template(REPORT, "report.html", content).encode())


def as_script(value: Any) -> str:
    """Encode a value as JSON that is safe inside a `<script>` element: it cannot close an HTML element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def replay_page(replay: Replay, ground: np.ndarray) -> str:
    """Return the HTML page of a replay's first battle; `ground` is its initial ground `[Z, Y, X]` uint8."""
    first = type(replay)(replay.about, replay.battles[:1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "battle.html"
        write_page(first, [ground], path)
        return path.read_text(encoding="utf-8")


def hit_distances(replay: Replay, battle: Battle, team: str) -> list[dict[str, Any]]:
    """Return the hits of a team by weapon: their number, and median and quartiles of the distance, vox.

    The weapon with the smallest median comes first.
    """
    names, reached = replay.about["weapons"], hits_of(battle)
    team_mechs = [n for n, mech in enumerate(replay.about["mechs"]) if mech["team"] == team]
    rows = []
    for weapon in sorted({weapon for _, weapon, _ in reached}):
        flown = [distance for shooter, weapon_id, distance in reached if weapon_id == weapon and shooter in team_mechs]
        if len(flown) >= FEWEST_HITS:
            low, median, high = (round(float(x), 2) for x in np.percentile(flown, (25, 50, 75)))
            rows.append({"weapon": names[weapon], "hits": len(flown), "low": low, "median": median, "high": high})
    return sorted(rows, key=lambda row: row["median"])


def hits_of(battle: Battle) -> list[tuple[int, int, float]]:
    """Return shooter, weapon and distance (vox) of every beam or shot that hit a mech."""
    hits = []
    for row in battle.beams.tolist():
        beam = dict(zip(TABLES["beams"], row, strict=True))
        if beam["target"] >= 0:
            ends = np.array([[beam[f"{axis}{end}"] for axis in "xyz"] for end in (0, 1)])
            hits.append((beam["shooter"], beam["weapon"], float(np.linalg.norm(ends[1] - ends[0])) / POS_PER_VOX))
    for row in battle.flights.tolist():
        flight = dict(zip(TABLES["flights"], row, strict=True))
        if flight["met"] == FlightEnd.MECH and flight["points"] > 0:
            points = battle.waypoints[flight["first"] : flight["first"] + flight["points"]].astype(float)
            hits.append(
                (flight["shooter"], flight["weapon"], float(np.linalg.norm(points[-1] - points[0])) / POS_PER_VOX)
            )
    return hits


EDITOR = files("echelon.viewer") / "editor"
EDITOR_SCRIPTS = ("scenario.js", "chart.js", "tools.js", "panel.js", "editor.js")
"""Scripts in loading order: they are concatenated, so later ones may use earlier ones."""


def editor_page(facts: Mapping[str, Any]) -> str:
    """Return the HTML page of the scenario editor.

    Args:
        facts: data of the page, namely `file` (its name), `scenario` (its JSON), `token` (the secret of the address),
            and the choices `presets` (map size, default zone), `hulls` (their size), `materials`, `objectives` (fields
            of each kind) and `commanders`.
    """
    content = {
        "<!-- title -->": html.escape(one_line(facts["file"])),
        "/* style */": read("editor.css", EDITOR),
        "<!-- data -->": as_script(facts),
        "/* scripts */": "\n".join([read("typed.js"), *(read(name, EDITOR) for name in EDITOR_SCRIPTS)]),
    }
    return fill_template(EDITOR, "editor.html", content)


COMMAND = files("echelon.viewer") / "command"
COMMAND_SCRIPTS = ("battle.js", "field.js", "orders.js", "stick.js", "film.js", "command.js")
"""Scripts in loading order, after the shared keyboard script and the editor's map."""


def command_page(facts: Mapping[str, Any]) -> str:
    """Return the command page.

    Args:
        facts: data of the page, namely `token` (the secret of the address), `team`, `map` (size x, y in vox), `ground`
            (`[Z, Y, X]` uint8, indices into `materials`), `hulls` (size of each, vox), and `watches`, True if the page
            only shows a running training and gives no orders.
    """
    data = {"watches": False, **{name: value for name, value in facts.items() if name != "materials"}}
    data["ground"] = ground_picture(facts["ground"], facts["materials"])
    scripts = [read("typed.js"), read("chart.js", EDITOR), *(read(name, COMMAND) for name in COMMAND_SCRIPTS)]
    content = {
        "<!-- title -->": html.escape(f"{facts['team']} · Echelon"),
        "/* style */": read("editor.css", EDITOR) + read("command.css", COMMAND),
        "<!-- data -->": as_script(data),
        "/* scripts */": "\n".join(scripts),
    }
    return fill_template(COMMAND, "command.html", content)


def ground_picture(ground: np.ndarray, materials: list[str]) -> str:
    """Draw the ground `[Z, Y, X]` with light and shadows from above; return a data URL of a PNG.

    The picture has one pixel per voxel, and +y is up.
    """
    buffer = io.BytesIO()
    Image.fromarray(shade(ground, materials)[::-1]).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
