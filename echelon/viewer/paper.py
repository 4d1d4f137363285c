"""Figures at the size of a paper's page, with readable text; the file name's suffix selects the format."""

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
"""Text width of a letter page with margins of one inch."""
TEXT_PT, SMALL_PT = 8.0, 7.0
DPI = 300
FORMATS = (".pdf", ".svg", ".png")
GREY, RULE = "#5b6470", "#d5d9de"
LINES = ("#1766cf", "#d04814", "#2a8f5a", "#8a4fbf", "#b8860b", "#0f8f9e", "#c2407f", "#5b6470")
"""Colours of curves, in order."""
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
"""Settings of matplotlib; math is off, because names may contain a dollar sign."""


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Context manager for creating and drawing figures in this module's style, independent of the user's settings.

    On exit, it restores the settings of matplotlib and NumPy. A character that is missing in the font becomes a box,
    without a warning.
    """
    matplotlib = import_matplotlib()
    with matplotlib.rc_context(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def import_matplotlib() -> Any:
    """Import matplotlib, even if `MPLBACKEND` names a backend that is not installed.

    A plain import fails for such a backend, for example in a subprocess of a notebook. The figures of this module need
    no backend, because the canvas of the file's format draws them.
    """
    backend = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
    try:
        # Imported here, because the import takes a tenth of a program's start, and most programs draw nothing.
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
    """Write a figure to each of the files, in the format of the file name's suffix."""
    layout = figure.get_layout_engine()
    if layout is not None:
        # The layout takes as long as the drawing, so it is computed once for all files.
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
    """Convert an RGB colour from 0..255 to matplotlib's 0..1."""
    red, green, blue = (channel / 255 for channel in rgb)
    return red, green, blue


def shortened(name: str, most: int) -> str:
    """Shorten a name to this many characters; the end of the name is kept, because it distinguishes paths."""
    return name if len(name) <= most else "…" + name[1 - most :]


def counted(value: float) -> str:
    """Format a large number in short form, such as 2500000 as 2.5 M."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= max(unit, 1e4):
            return f"{value / unit:.6g}{name}"
    # Adding zero turns -0.0 into 0.0.
    return f"{value + 0.0:g}"


def require_picture(flag: str, path: Path | None, suffixes: tuple[str, ...] = FORMATS) -> None:
    """Reject a file name whose suffix is not a supported picture format."""
    fits = path is None or path.suffix.lower() in suffixes
    require(fits, flag, f"the name of a picture that ends with {' or '.join(suffixes)}", str(path))
