"""Figures at the size of a paper's page: text of a readable size, in the format that the name of a file ends with."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.runtime.errors import require
from echelon.runtime.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_IN = 6.5
"""Width of the text of a page of letter paper with margins of an inch."""
TEXT_PT, SMALL_PT = 8.0, 7.0
DPI = 300
FORMATS = (".pdf", ".svg", ".png")
GREY, RULE = "#5b6470", "#d5d9de"
LINES = ("#1766cf", "#d04814", "#2a8f5a", "#8a4fbf", "#b8860b", "#0f8f9e", "#c2407f", "#5b6470")
"""Colours of curves, in their order."""
STYLE: dict[Any, Any] = {
    "font.size": TEXT_PT,
    "axes.titlesize": TEXT_PT,
    "axes.labelsize": SMALL_PT,
    "xtick.labelsize": SMALL_PT,
    "ytick.labelsize": SMALL_PT,
    "legend.fontsize": SMALL_PT,
    "legend.frameon": False,
    "legend.borderpad": 0.1,
    "legend.labelspacing": 0.2,
    "legend.handlelength": 1.7,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.4,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.0,
    "pdf.fonttype": 42,
    "text.parse_math": False,
}
"""Settings of matplotlib; a name from outside with a dollar sign is no formula."""


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Context manager in which figures are made and drawn in this style, whatever the user has set in matplotlib or
    NumPy; those settings hold again behind it. Letters of a name that the font lacks are boxes, without a warning."""
    matplotlib = import_matplotlib()
    with matplotlib.rc_context(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def import_matplotlib() -> Any:
    """matplotlib, whatever backend `MPLBACKEND` names.

    Its import fails where that backend is not installed, as in a program that a notebook starts in another environment.
    Figures here need none: they are drawn by the canvas of their file's format.
    """
    backend = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
    try:
        # Takes a tenth of the time that a program needs to start, and most draw nothing.
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
    return matplotlib


def blank(width: float, height: float, layout: str | None = "constrained") -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]


@paper_style()
def save(figure: Figure, *paths: Path) -> None:
    """Write a figure into each file, in the format that its name ends with."""
    layout = figure.get_layout_engine()
    if layout is not None:
        # It takes as long as drawing, and would be computed again for each file.
        layout.execute(figure)
        figure.set_layout_engine("none")
    for path in paths:
        with atomic_write(path) as draft:
            figure.savefig(draft, dpi=DPI, format=path.suffix[1:].lower())


@paper_style()
def pixels(figure: Figure, dpi: int) -> np.ndarray:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def colour(rgb: Sequence[int]) -> tuple[float, float, float]:
    """A colour of 0..255 as matplotlib takes it."""
    red, green, blue = (channel / 255 for channel in rgb)
    return red, green, blue


def shortened(name: str, most: int) -> str:
    """A name of at most so many letters; of a longer one its end, which tells paths apart."""
    return name if len(name) <= most else "…" + name[1 - most :]


def counted(value: float) -> str:
    """A large number in short: 2500000 as 2.5 M."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= max(unit, 1e4):
            return f"{value / unit:.6g}{name}"
    # Adding zero takes the sign of a negative one.
    return f"{value + 0.0:g}"


def require_picture(flag: str, path: Path | None, suffixes: tuple[str, ...] = FORMATS) -> None:
    """Refuse a name that says another kind of picture than can be drawn."""
    fits = path is None or path.suffix.lower() in suffixes
    require(fits, flag, f"the name of a picture that ends with {' or '.join(suffixes)}", str(path))
