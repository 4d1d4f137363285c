"""Figures for a paper: text is legible at page width, measured in the files."""

import os
import re
import subprocess
import sys
import zlib

import matplotlib
import numpy as np
import pytest
from PIL import Image
from scenes import DECISIONS, MATERIALS, SIZE, small_replay
from tiers import usually

from echelon.reports.plots import (
    Curve,
    Subplot,
    curves_figure,
    metrics_figure,
    payoff_figure,
    ratings_figure,
    styles_figure,
)
from echelon.viewer.battle_picture import BattlePlan, strip_figure, strip_pixels, telling_times
from echelon.viewer.contact_sheet import Tile, draw_contact_sheet
from echelon.viewer.paper import SMALL_PT, counted, pixels, save, shortened

PT_PER_IN = 72
ODD = "a $x_1$ </svg> 名"
"""A name with a formula, a closing tag, and a character that the font lacks."""


def streams(path):
    """Return the decompressed streams of a PDF."""
    found = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", path.read_bytes(), re.S)
    for data in found:
        try:
            yield zlib.decompress(data)
        except zlib.error:
            continue


def text_sizes(path):
    """Return the sizes of all text in a PDF, in pt."""
    return [float(size) for data in streams(path) for size in re.findall(rb"/F\d+ ([\d.]+) Tf", data)]


def width_in(path):
    """Return the page width of a PDF, in inches."""
    (width,) = {float(box) / PT_PER_IN for box in re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", path.read_bytes())}
    return width


def metrics():
    return [{"agent_steps": 4e5 * n, "kl": 0.01 * n, "return": -3.0 + n, "zone_s": 2.0 * n} for n in range(1, 9)]


def evaluations():
    numbers = {"win_rate": "0.5", "low": "0.3", "high": "0.7"}
    return [{"agent_steps": str(1e6 * n), "rival": rival, **numbers} for n in range(3) for rival in ("easy", ODD)]


def strip(path):
    replay, grounds = small_replay(1)
    save(strip_figure(replay, 0, grounds[0]), path)


def curves(path):
    x = np.arange(1, 5) * 1e6
    panels = {name: Subplot({ODD: Curve(x, x, x * 0.9, x * 1.1)}) for name in ("return", "kl")}
    rates = np.array([0.0, 0.4, 0.5, 1.0])
    panels["win rate"] = Subplot({ODD: Curve(x, rates, rates / 2, rates)}, is_evaluation=True, is_share=True)
    save(curves_figure(panels, "mean over runs"), path)


def maps(path):
    tile = Tile("map 1", np.zeros((2, 8, 8), np.uint8), (4, 4, 2), [(1, 1, 0), (6, 6, 1)], [(2, 2, "forest park")])
    assert draw_contact_sheet([tile] * 21, list(MATERIALS), path) == [path]


FIGURES = {
    "strip": strip,
    "metrics": lambda path: save(metrics_figure(metrics(), evaluations()), path),
    "payoff": lambda path: save(payoff_figure([ODD, "b"], [[0.5, 1.0], [0.0, float("nan")]], [[0, 32], [32, 0]]), path),
    "large payoff": lambda path: save(payoff_figure([f"e{n}" for n in range(40)], np.full((40, 40), 0.5)), path),
    "ratings": lambda path: save(ratings_figure({ODD: [(1, 1500.0, 90.0), (2, 1520.0, 60.0)]}), path),
    "styles": lambda path: save(
        styles_figure([ODD, "b", "c"], np.array([[0.0, 1], [2, -1], [1, 0]]), [0.7, 0.2]), path
    ),
    "curves": curves,
    "maps": maps,
}


@pytest.mark.parametrize("name", usually(FIGURES, "payoff", "curves"))
def test_text_is_at_least_seven_points_at_page_width(tmp_path, name):
    path = tmp_path / "figure.pdf"
    FIGURES[name](path)
    sizes = text_sizes(path)
    assert width_in(path) == pytest.approx(6.5)
    assert len(sizes) >= 5 and min(sizes) >= SMALL_PT == 7.0


def test_evaluations_are_points_and_stages_are_marked():
    rows = [{**row, "win_rate": 0.5, "stage": 1.0 + (n > 3) + (n > 5)} for n, row in enumerate(metrics())]
    figure = metrics_figure(rows, evaluations())
    panels = {axis.get_title("left"): axis for axis in figure.axes}
    shown = panels["win rate, held-out maps"]
    assert shown.get_ylim() == panels["win rate in training"].get_ylim() == (0, 1)
    assert len(shown.containers) == 2 and all(bars.has_yerr for bars in shown.containers)
    steps = [x for n, x in enumerate(row["agent_steps"] for row in rows) if n in (3, 5)]
    for axis in panels.values():
        marks = [(text.get_text(), text.xy[0]) for text in axis.texts]
        assert marks == [("2", steps[0]), ("3", steps[1])], axis.get_title("left")


def test_text_measure_detects_small_text(tmp_path):
    figure = strip_figure(*with_ground())
    figure.text(0.5, 0.5, "small", fontsize=6.5)
    figure.savefig(tmp_path / "small.pdf")
    assert min(text_sizes(tmp_path / "small.pdf")) == 6.5


def with_ground():
    replay, grounds = small_replay(1)
    return replay, 0, grounds[0]


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [pytest.param(".pdf", b"%PDF", marks=pytest.mark.long), (".svg", b"<?xml"), (".png", b"\x89PNG")],
)
def test_file_suffix_selects_format(tmp_path, suffix, begins):
    for number, (name, draw) in enumerate(FIGURES.items()):
        if name == "maps":
            continue
        path = tmp_path / f"{number}{suffix}"
        draw(path)
        assert path.read_bytes().startswith(begins)


def test_strip_shows_names_times_and_scale():
    replay, battle, ground = with_ground()
    figure = strip_figure(replay, battle, ground, [0.0, 2.5, 6.0])
    told = [text.get_text() for text in figure.texts]
    assert {"heuristic:expert", "heuristic:hard <b>bold</b>", "against", "0:00", "0:02", "0:06", "5 vox"} <= set(told)
    assert told.count("2 left, 0.0 s") == 2 and "1 left, 4.0 s" in told and "blue wins by time up" in told
    assert len(figure.axes) == 3
    # The bar is as long as it says: the width of a panel is that of the map.
    bar = figure.artists[0].get_xdata()
    panel = figure.axes[0].get_position().width
    assert bar[1] - bar[0] == pytest.approx(panel * 5 / SIZE[0])


def test_strip_has_requested_width(tmp_path):
    replay, battle, ground = with_ground()
    save(strip_figure(replay, battle, ground, [3.0], width=3.25), tmp_path / "frame.png")
    with Image.open(tmp_path / "frame.png") as picture:
        assert picture.width == round(3.25 * 300)
    assert strip_pixels(replay, battle, ground).shape[1] == round(6.5 * 150)


def test_strip_times_follow_damage():
    """40 points in tick 28 and 80 in tick 78, so a third of the damage is done before tick 78."""
    replay, battle, ground = with_ground()
    plan = BattlePlan(replay, battle, ground, 4)
    assert telling_times(plan, 4) == pytest.approx([0.0, 29 * 0.05, 79 * 0.05, DECISIONS * 0.25])
    assert telling_times(plan, 3, (3.0, 5.0)) == pytest.approx([3.0, 79 * 0.05, 5.0]), "between both ends"
    plan.rows["harms"] = []
    assert telling_times(plan, 3) == pytest.approx([0.0, 3.0, 6.0])


def test_sheets_over_several_pages_are_numbered(tmp_path):
    tile = Tile("a", np.zeros((2, 8, 8), np.uint8))
    found = draw_contact_sheet([tile] * 21, list(MATERIALS), tmp_path / "maps.png")
    assert [path.name for path in found] == ["maps_1.png", "maps_2.png"] and all(path.exists() for path in found)
    assert draw_contact_sheet([tile], list(MATERIALS), tmp_path / "maps.png") == [tmp_path / "maps.png"]


def test_figure_as_pixels_has_requested_size():
    picture = pixels(strip_figure(*with_ground(), [0.0], 2.0), 100)
    assert picture.dtype == np.uint8 and picture.shape[1:] == (200, 3) and picture.std() > 10


def test_numbers_and_names_are_shortened():
    told = {0.25: "0.25", -0.0: "0", 1500: "1500", 25000: "25 k", 2.5e6: "2.5 M", -3e9: "-3 G"}
    assert [counted(x) for x in told] == list(told.values())
    assert shortened("abcdef", 6) == "abcdef" and shortened("runs/a/iteration_1", 12) == "…iteration_1"


TILE = Tile("a", np.zeros((2, 8, 8), np.uint8))
USER_SETTINGS = {
    "text.usetex": True,
    "font.family": ["no such font"],
    "font.size": 30.0,
    "figure.facecolor": "black",
    "figure.dpi": 20.0,
    "lines.linestyle": ":",
    "axes.xmargin": 0.4,
    "axes.formatter.use_locale": True,
    "axes.prop_cycle": matplotlib.cycler(color=["red"]),
    "savefig.bbox": "tight",
    "savefig.transparent": True,
    "path.sketch": (5.0, 50.0, 10.0),
    "xtick.top": True,
}


@pytest.mark.parametrize("name", ["metrics", "strip", "maps"])
def test_user_settings_do_not_change_figures(tmp_path, name):
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    draw = {**FIGURES, "maps": lambda path: draw_contact_sheet([TILE], list(MATERIALS), path)}
    draw[name](first)
    with matplotlib.rc_context(USER_SETTINGS), np.errstate(all="raise"):
        draw[name](second)
        assert {key: matplotlib.rcParams[key] for key in USER_SETTINGS} == USER_SETTINGS, "user settings are unchanged"
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("backend", ["module://not_installed.backend_inline", "svg"])
def test_figures_ignore_environment_backend(tmp_path, backend):
    """A notebook passes its own backend to child processes, whose environment may lack it."""
    script = (
        "import os, sys; from pathlib import Path; from echelon.reports.plots import metrics_figure\n"
        "from echelon.viewer.paper import save\n"
        "save(metrics_figure([{'agent_steps': 1.0, 'kl': 0.1}], []), Path(sys.argv[1]))\n"
        "import matplotlib; print(os.environ['MPLBACKEND'], matplotlib.rcParams._get('backend'))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "metrics.png")]
    ran = subprocess.run(command, env={**os.environ, "MPLBACKEND": backend}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    named, used = ran.stdout.split(maxsplit=1)
    assert named == backend and (backend != "svg" or used.strip() == "svg")
    assert (tmp_path / "metrics.png").read_bytes().startswith(b"\x89PNG")
